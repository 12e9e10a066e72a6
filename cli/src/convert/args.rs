//! The command line of `qsf-convert`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Parser, ValueEnum};
use qsf_converter::plan::{TensorType, TypeOverride};
use qsf_converter::{OutlierChoice, Percent, SearchEffort};
use qsf_format::{BlockSize, Compression, Layout, QuantType};
use qsf_runtime::WorkPart;

use super::quant_arg::{FormatArg, QuantArg};
use crate::batch::BatchArgs;
use crate::byte_size::{ByteSize, positive_size};
use crate::compute::ComputeArgs;
use crate::model_args::ScaledPath;
use crate::progress::VerbosityArgs;
use crate::upload::UploadArgs;

const EXAMPLES: &str = "Examples:
  qsf-convert ./Llama-3.2-1B llama.qsf --quant 4bit
  qsf-convert model-f16.gguf model.qsf
  qsf-convert ./Llama-3.2-1B llama.gguf --quant Q4_K_M --calibration text.txt
  qsf-convert llama.gguf ./llama --to hf
  qsf-convert ./Llama-3.2-1B ./llama-w4a16 --to compressed-tensors --calibration text.txt
  qsf-convert ./Llama-3.2-1B ./llama-mlx --to mlx --target-bpw 4 --calibration text.txt
  qsf-convert ./gpt2 --quant mixed --tensor-type 'layer 0 *=8bit'
  qsf-convert --demo
  qsf-convert --batch jobs.jsonl --out-dir quantized
  qsf-convert ./gpt2 --calibration text.txt --stats-only --stats-out gpt2.stats

Which type? No other beats these in size and divergence; a large model loses less than this one of 17 million weights:
  --quant   bits per weight   KL divergence   same top token
  8bit      8.25              0.0009          97.7 %
  6bit      6.25              0.0023          96.0 %
  n5        5.25              0.0059          93.5 %
  n4        4.25              0.0210          87.7 %
  x4        4                 0.0253          87.2 %
  x3        3                 0.0915          77.4 %
  x2        2                 0.4092          56.6 %
A mix for a size, which --target-size chooses, is better than any one type.

Exit codes: 0 ok, 2 usage, 3 bad input, 4 unsupported model, 5 out of memory or disk,\n6 a file misses its limits or jobs of a batch failed, 130 interrupted.";

/// Converts a HuggingFace, GGUF or QSF model into one QSF file, one GGUF file for llama.cpp, or a HuggingFace directory.
///
/// OUT.gguf, --to gguf or a recipe of llama-quantize (--quant Q4_K_M) make a GGUF file, --to hf, mlx or compressed-tensors a
/// directory.
#[derive(Debug, Parser)]
#[command(name = "qsf-convert", version, after_help = EXAMPLES)]
// Otherwise no model is run, and there is nothing to pin.
#[command(group(ArgGroup::new("runs_text").args(["calibration", "target_size", "target_bpw", "stats_out"]).multiple(true)))]
#[command(group(ArgGroup::new("runs_models").args(["calibration", "stats_in", "imatrix", "stats_out", "target_size", "target_bpw", "plan", "clusters", "early_exit", "eval", "demo"]).multiple(true)), mut_arg("pin", |pin| pin.requires("runs_models")))]
// The options of a job are in the list.
#[command(mut_arg("batch", |batch| batch.conflicts_with_all(["model", "out", "revision", "merge_lora", "quant", "to", "dtype", "shard_size", "split_size", "tensor_type", "outliers", "min_cosine", "block_size", "compress", "layout", "target_size", "target_bpw", "plan", "save_plan", "calibration", "calibration_tokens", "effort", "chat_template", "stats_in", "imatrix", "stats_out", "stats_only", "stats_part", "merge_stats", "show_stats", "clusters", "early_exit", "eval", "eval_chunks", "max_kld", "max_ppl_increase", "max_size", "skip_tokenizer_check", "force", "allow_requantize", "demo", "demo_dir", "pin", "upload", "gguf_types"])))]
#[command(mut_arg("upload", |upload| upload.conflicts_with_all(["dry_run", "stats_only", "stats_part", "merge_stats", "show_stats", "demo"])))]
pub struct ConvertArgs {
    /// Directory with config.json, weights and tokenizer; GGUF file (the first of a split one); QSF file; or a model of the
    /// HuggingFace hub: org/name, org/name@revision, org/name:FILE.gguf
    #[arg(value_name = "MODEL", required_unless_present_any = ["demo", "show_stats", "merge_stats", "batch"])]
    pub(super) model: Option<PathBuf>,
    /// File to write: OUT.qsf or OUT.gguf; with --to hf, mlx or compressed-tensors the directory [default: MODEL's name and the type, in this directory]
    #[arg(value_name = "OUT")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) upload: UploadArgs,
    /// Branch, tag or commit of a model of the hub [default: main]
    #[arg(long, value_name = "REV", requires = "model")]
    pub(super) revision: Option<String>,
    /// Add an adapter (LoRA) to the matrices before anything else is done: a directory as PEFT saves it or a GGUF file, and what it
    /// is multiplied with, such as dir=0.5 [default: 1]. May be given several times
    #[arg(long, value_name = "PATH[=SCALE]", requires = "model", conflicts_with_all = ["plan", "save_plan", "demo", "show_stats", "merge_stats"])]
    pub(super) merge_lora: Vec<ScaledPath>,
    /// Copy MODEL, a QSF file, to OUT with an adapter in it, which programs then apply without --lora; several are added up
    #[arg(long, value_name = "PATH[=SCALE]", requires_all = ["model", "out"], conflicts_with_all = ["merge_lora", "quant", "to", "dtype", "shard_size", "split_size", "tensor_type", "outliers", "min_cosine", "block_size", "compress", "layout", "target_size", "target_bpw", "plan", "save_plan", "calibration", "calibration_tokens", "effort", "chat_template", "stats_in", "imatrix", "stats_out", "clusters", "early_exit", "eval", "eval_chunks", "max_kld", "max_ppl_increase", "stats_only", "stats_part", "max_size", "skip_tokenizer_check", "allow_requantize", "dry_run", "revision", "upload", "gguf_types", "demo", "show_stats", "merge_stats", "batch"])]
    pub(super) embed_lora: Vec<ScaledPath>,
    /// Type of the matrices: x2, x3, x4, n2, n3, n4, n5, 6bit, 8bit, f16, bf16 or f32; to compare, or for models trained in them: t2, t3, 2bit,
    /// 2bit-sym, 3bit, 4bit, ternary, mixed; of a GGUF file a recipe of llama-quantize: IQ1_S, IQ1_M, TQ1_0, TQ2_0, IQ2_XXS, IQ2_XS, IQ2_S, IQ2_M, Q2_K, Q2_K_S, IQ3_XXS,
    /// IQ3_XS, IQ3_S, IQ3_M, Q3_K_S, Q3_K_M, Q3_K_L, IQ4_XS, IQ4_NL, Q4_0, Q4_1, Q4_K_S, Q4_K_M, MXFP4_MOE, Q5_0, Q5_1, Q5_K_S,
    /// Q5_K_M, Q6_K, Q8_0, F16, BF16 or F32; for compressed-tensors a scheme of llm-compressor: W4A16, W8A16,
    /// W4A16_ASYM or W8A16_ASYM; for MLX affine2, affine3, affine4, affine5, affine6 or affine8 [default: n4; of a GGUF file Q4_K_M;
    /// for compressed-tensors W4A16, for MLX affine4]
    #[arg(long, visible_alias = "quant-type", value_name = "TYPE")]
    pub(super) quant: Option<QuantArg>,
    /// Format to write, where the name of OUT does not say it
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) to: Option<FormatArg>,
    /// Of a directory: type of the values that are floats, scales included [default: that of the source; bf16 where it is quantized]
    #[arg(long, value_enum, value_name = "TYPE")]
    pub(super) dtype: Option<DtypeArg>,
    /// Of a directory: most bytes of a file of weights [default: 5GB]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(super) shard_size: Option<ByteSize>,
    /// Of GGUF files: most bytes of tensors in a file; a larger model makes OUT-00001-of-0000N.gguf and so on, as llama-gguf-split
    /// does [default: one file]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(super) split_size: Option<ByteSize>,
    /// Type of the tensors whose name matches, such as 'attn_v=8bit' or 'layer 0 *=4bit'; may be repeated, later ones win
    #[arg(long, value_name = "PATTERN=TYPE")]
    pub(super) tensor_type: Vec<TypeOverride>,
    /// Weights to store apart from the blocks, as f16: off, auto (of each matrix as many as pay for their bytes; needs a
    /// target) or a share of every matrix, such as 0.5% [default: auto with --target-size or --target-bpw, else off]
    #[arg(long, value_name = "SHARE")]
    pub(super) outliers: Option<OutlierArg>,
    /// Least cosine between a matrix and the original, such as 0.99: a matrix below it gets the next larger type until it is
    /// not; with a target only types above it are chosen
    #[arg(long, value_name = "C", value_parser = parse_cosine)]
    pub(super) min_cosine: Option<f64>,
    /// Values per scale: 32, 64, 128 or 256 [default: 64; for compressed-tensors the largest of 128, 64 and 32 that divides all rows, for MLX of 64 and 32]
    #[arg(long, visible_aliases = ["q-group-size", "group-size"], value_name = "N")]
    pub(super) block_size: Option<BlockSize>,
    /// Compression of layers, used where it saves at least 2 %
    #[arg(long, value_enum, value_name = "METHOD", default_value = "none")]
    pub(super) compress: CompressArg,
    /// Order of the blocks of a matrix
    #[arg(long, value_enum, value_name = "ORDER", default_value = "panels")]
    pub(super) layout: LayoutArg,
    /// Choose the types so that the file has at most this size, such as 24MB, and is as good as it can be
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["quant", "target_bpw"])]
    pub(super) target_size: Option<ByteSize>,
    /// Choose the types so that the whole file has at most so many bits per weight, such as 3.5
    #[arg(long, value_name = "BITS", conflicts_with = "quant")]
    pub(super) target_bpw: Option<f64>,
    /// Of GGUF files: choose among these types alone, such as Q4_0,Q8_0
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = TensorType::of_gguf)]
    pub(super) gguf_types: Vec<TensorType>,
    /// Make the file that a plan is of, with the same bytes: types, texts and all options come from it. --calibration and
    /// --stats-in say where files of the plan are now
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quant", "to", "dtype", "shard_size", "tensor_type", "outliers", "min_cosine", "block_size", "compress", "layout", "target_size", "target_bpw", "calibration_tokens", "effort", "chat_template", "stats_out", "clusters", "early_exit", "gguf_types"])]
    pub(super) plan: Option<PathBuf>,
    /// Write the plan of the conversion as JSON, as soon as types are chosen; with --dry-run, too
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    pub(super) save_plan: Option<PathBuf>,
    /// Text or JSONL to fit the weights to: every matrix is quantized so that what it computes on it changes least; `self` is text
    /// that the model writes itself; may be repeated [default: with --target-size or --target-bpw a built-in text]
    #[arg(long, value_name = "TEXT")]
    pub(super) calibration: Vec<PathBuf>,
    /// Tokens of the calibration text to use [default: from 131072 for models of up to 67 million weights to 32768 for
    /// those of 268 million and more; with --effort low fewer, with high and max up to twice as many]
    #[arg(long, value_name = "N", requires = "runs_text")]
    pub(super) calibration_tokens: Option<usize>,
    /// How long to search: low takes a third of the time, for large models and small machines; high takes two to three times as long for
    /// a few percent less damage, max several times as long for a few percent more
    #[arg(long, value_enum, value_name = "EFFORT", default_value = "normal", requires = "runs_text")]
    pub(super) effort: EffortArg,
    /// Make texts of the conversations in JSONL files ("messages") by the model's chat template, not one message a line
    #[arg(long, requires = "calibration")]
    pub(super) chat_template: bool,
    /// Statistics files of this model, instead of running the text through it; may be repeated: they add up. Without
    /// --calibration the weights are fitted to them alone
    #[arg(long, value_name = "FILE", conflicts_with = "stats_out")]
    pub(super) stats_in: Vec<PathBuf>,
    /// Importance matrix of llama.cpp (GGUF, or the older .dat) of this model, where no text is at hand: it says how much each
    /// column of a matrix matters
    #[arg(long, value_name = "FILE", conflicts_with_all = ["calibration", "stats_in", "stats_out", "stats_only", "target_size", "target_bpw", "clusters", "early_exit", "plan", "demo", "show_stats", "merge_stats"])]
    pub(super) imatrix: Option<PathBuf>,
    /// Write the statistics of the calibration text to a file; to FILE.gguf an importance matrix for llama-quantize
    #[arg(long, value_name = "FILE")]
    pub(super) stats_out: Option<PathBuf>,
    /// Write the file of --stats-out and stop: nothing is converted
    #[arg(long, requires_all = ["stats_out", "model"], conflicts_with_all = ["out", "quant", "to", "dtype", "shard_size", "split_size", "tensor_type", "outliers", "min_cosine", "block_size", "compress", "layout", "target_size", "target_bpw", "plan", "save_plan", "effort", "clusters", "early_exit", "eval", "max_size", "skip_tokenizer_check", "allow_requantize", "demo", "gguf_types"])]
    pub(super) stats_only: bool,
    /// With --stats-only: only the I-th of N parts of the calibration text, such as 1/4, cut between the sequences that the whole
    /// text is taken in; --stats-in and --merge-stats add the files up
    #[arg(long, value_name = "I/N", requires = "stats_only")]
    pub(super) stats_part: Option<WorkPart>,
    /// Add up statistics files of one model, in this order, into that of --stats-out, and stop
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "stats_out", conflicts_with_all = ["model", "stats_only", "calibration", "calibration_tokens", "chat_template", "threads", "pin", "out", "quant", "to", "dtype", "shard_size", "split_size", "tensor_type", "outliers", "min_cosine", "block_size", "compress", "layout", "target_size", "target_bpw", "plan", "save_plan", "effort", "clusters", "early_exit", "eval", "max_size", "skip_tokenizer_check", "allow_requantize", "demo", "gguf_types"])]
    pub(super) merge_stats: Vec<PathBuf>,
    /// Print what statistics files hold and stop. With MODEL, before it, also how long the rows of its matrices are, and how
    /// much their outputs vary
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["out", "revision", "quant", "to", "dtype", "shard_size", "split_size", "tensor_type", "outliers", "min_cosine", "block_size", "compress", "layout", "demo", "dry_run", "plan", "save_plan", "eval", "max_size", "clusters", "early_exit", "calibration", "stats_in", "stats_out", "target_size", "target_bpw", "skip_tokenizer_check", "force", "allow_requantize", "gguf_types"])]
    pub(super) show_stats: Vec<PathBuf>,
    /// Group the tokens of the vocabulary into N clusters, measured on the calibration text, for qsf-run --head clusters [default:
    /// none; without a number 256]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "256", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) clusters: Option<u32>,
    /// Learn from the calibration text when a token is decided before the last layer, for qsf-run --early-exit
    #[arg(long)]
    pub(super) early_exit: bool,
    /// Text to compare the written file with the model on; the result is printed and stored in the file
    #[arg(long, visible_alias = "eval-text", value_name = "TEXT")]
    pub(super) eval: Option<PathBuf>,
    /// With --eval: chunks of 512 tokens to use [default: all]
    #[arg(long, value_name = "N", requires = "eval", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) eval_chunks: Option<u32>,
    /// Most KL divergence from the model on the text of --eval, in nats per token. A file that misses this or another limit is
    /// kept as NAME.rejected.qsf
    #[arg(long, value_name = "NATS", requires = "eval", value_parser = parse_divergence)]
    pub(super) max_kld: Option<f64>,
    /// Most that the perplexity on the text of --eval may grow, such as 5%
    #[arg(long, value_name = "PERCENT", requires = "eval")]
    pub(super) max_ppl_increase: Option<Percent>,
    /// Most bytes of the file, such as 24MB; --target-size makes one that keeps to a size
    #[arg(long, value_name = "SIZE")]
    pub(super) max_size: Option<ByteSize>,
    /// Convert although the tokenizer splits some text differently from what the source says
    #[arg(long)]
    pub(super) skip_tokenizer_check: bool,
    /// Replace OUT.qsf, or the file of --stats-out, if it exists
    #[arg(long)]
    pub(super) force: bool,
    /// Quantize a model that is quantized already, such as most GGUF files: errors add up
    #[arg(long)]
    pub(super) allow_requantize: bool,
    /// Predict size, time, memory and, with a target or --calibration, the divergence from MODEL, and stop. With a target the
    /// types are chosen, which takes a part of the time of the conversion; --save-plan keeps them for it. With --batch, say which
    /// jobs are to be done, and the memory and threads of each
    #[arg(long, conflicts_with_all = ["stats_out", "retry", "fail_fast"])]
    pub(super) dry_run: bool,
    /// Convert the built-in model at several types, evaluate each and compare
    #[arg(long, conflicts_with_all = ["model", "out", "quant", "to", "dtype", "shard_size", "split_size", "tensor_type", "outliers", "min_cosine", "block_size", "compress", "layout", "dry_run", "calibration", "skip_tokenizer_check", "allow_requantize", "revision", "target_size", "target_bpw", "plan", "save_plan", "clusters", "early_exit", "eval", "max_size", "stats_in", "stats_out", "show_stats", "gguf_types"])]
    pub(super) demo: bool,
    /// With --demo: folder for the files
    #[arg(long, value_name = "DIR", default_value = "demo-out", requires = "demo", conflicts_with = "model")]
    pub(super) demo_dir: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Leave out the table of tensors
    #[arg(long, help_heading = "Output")]
    pub(super) no_table: bool,
    #[command(flatten)]
    pub(super) output: VerbosityArgs,
    #[command(flatten)]
    pub(super) compute: ComputeArgs,
    #[command(flatten)]
    pub(super) batch: BatchArgs,
}

/// `--dtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DtypeArg {
    /// 32-bit floats
    F32,
    /// 16-bit floats
    F16,
    /// 16-bit floats with the range of f32
    Bf16,
}

impl From<DtypeArg> for QuantType {
    fn from(arg: DtypeArg) -> QuantType {
        match arg {
            DtypeArg::F32 => QuantType::F32,
            DtypeArg::F16 => QuantType::F16,
            DtypeArg::Bf16 => QuantType::Bf16,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum CompressArg {
    /// Tensors usable in place
    None,
    /// Fast to read
    Lz4,
    /// As fast to read, smaller and slow to write
    Lz4hc,
    /// Smaller
    Zstd,
}

impl From<CompressArg> for Compression {
    fn from(arg: CompressArg) -> Compression {
        match arg {
            CompressArg::None => Compression::None,
            CompressArg::Lz4 => Compression::Lz4,
            CompressArg::Lz4hc => Compression::Lz4Hc,
            CompressArg::Zstd => Compression::Zstd,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum LayoutArg {
    /// Sixteen rows interleaved, as kernels read them fastest; rows where a tensor has no blocks or fewer rows
    Panels,
    /// One row after another
    Rows,
}

/// `--outliers`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutlierArg(pub(super) OutlierChoice);

impl FromStr for OutlierArg {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(OutlierArg)
    }
}

/// `--min-cosine`: what a type can reach.
fn parse_cosine(s: &str) -> Result<f64, String> {
    let cosine = s.parse::<f64>().ok().filter(|cosine| (0.0..1.0).contains(cosine));
    cosine.ok_or_else(|| format!("'{s}' is not a number from 0 to below 1, such as 0.99"))
}

/// `--max-kld`.
fn parse_divergence(s: &str) -> Result<f64, String> {
    let nats = s.parse::<f64>().ok().filter(|nats| nats.is_finite() && *nats >= 0.0);
    nats.ok_or_else(|| format!("'{s}' is no divergence such as 0.05"))
}

impl From<LayoutArg> for Layout {
    fn from(arg: LayoutArg) -> Layout {
        match arg {
            LayoutArg::Panels => Layout::Panels16,
            LayoutArg::Rows => Layout::Rows,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum EffortArg {
    /// Choose types by gradients rather than by trials, and keep fewer paths through a trellis
    Low,
    /// As long as pays
    Normal,
    /// Take gradients of more tokens, and keep more paths through a trellis
    High,
    /// Fit every matrix to what those before it leave, and check the types on the whole model
    Max,
}

impl From<EffortArg> for SearchEffort {
    fn from(arg: EffortArg) -> SearchEffort {
        match arg {
            EffortArg::Low => SearchEffort::Low,
            EffortArg::Normal => SearchEffort::Normal,
            EffortArg::High => SearchEffort::High,
            EffortArg::Max => SearchEffort::Max,
        }
    }
}
