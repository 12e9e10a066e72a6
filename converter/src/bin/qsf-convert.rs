//! `qsf-convert`: a source model in, one checksummed QSF file out.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use clap::{ArgGroup, Parser, ValueEnum};
use qsf_converter::demo::{demo_table, run_demo};
use qsf_converter::hub::{HubError, Reference};
use qsf_converter::plan::{Recipe, TypeOverride, read_plan, write_plan};
use qsf_converter::report::{
    conversion_json, conversion_table, plan_table, prediction_json, prediction_lines,
};
use qsf_converter::{
    ClusterOptions, Conversion, ConvertError, ConvertOptions, EvaluationText, OutlierChoice, SearchEffort,
    StatsReport, calibrate, convert, journal_path, predict,
};
use qsf_format::cli::{ByteSize, exit_with, human_bytes, print};
use qsf_format::{BlockSize, Compression, Failure, FormatError, Layout};
use qsf_runtime::RuntimeError;
use qsf_runtime::cli::{ComputeArgs, ProgressLine, cancel_on_interrupt, classify, model_name, read_text};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress as _};
use qsf_runtime::source::{self, WeightSource};
use serde_json::json;

/// Converts a HuggingFace or GGUF model into one QSF file.
#[derive(Debug, Parser)]
#[command(name = "qsf-convert", version, after_help = EXAMPLES)]
// Otherwise no model is run, and there is nothing to pin.
#[command(group(ArgGroup::new("runs_text").args(["calibration", "target_size", "target_bpw", "stats_out"]).multiple(true)))]
#[command(group(ArgGroup::new("runs_models").args(["calibration", "stats_in", "stats_out", "target_size", "target_bpw", "clusters", "eval", "demo"]).multiple(true)), mut_arg("pin", |pin| pin.requires("runs_models")))]
struct Args {
    /// Directory with config.json, weights and tokenizer; GGUF file (the first of a split one); QSF file; or a model of the
    /// HuggingFace hub: org/name, org/name@revision, org/name:FILE.gguf (in builds with the feature `hub`)
    #[arg(value_name = "MODEL", required_unless_present_any = ["demo", "show_stats"])]
    model: Option<PathBuf>,
    /// File to write [default: MODEL's name and the type, in this directory]
    #[arg(value_name = "OUT.qsf")]
    out: Option<PathBuf>,
    /// Branch, tag or commit of a model of the hub [default: main]
    #[arg(long, value_name = "REV", requires = "model")]
    revision: Option<String>,
    /// Type of the matrices: t2, t3, n2, n3, n4, n5, 6bit, 8bit, 2bit, 2bit-sym, 3bit, 4bit, ternary, f16, bf16, f32 or mixed
    #[arg(short, long, visible_alias = "quant-type", value_name = "TYPE", default_value = "4bit")]
    quant: Recipe,
    /// Type of the tensors whose name matches, such as 'attn_v=8bit' or 'layer 0 *=4bit'; may be repeated, later ones win
    #[arg(long, value_name = "PATTERN=TYPE")]
    tensor_type: Vec<TypeOverride>,
    /// Weights to store apart from the blocks, as f16: off, auto (of each matrix as many as pay for their bytes; needs a
    /// target) or a share of every matrix, such as 0.5% [default: auto with --target-size or --target-bpw, else off]
    #[arg(long, value_name = "SHARE")]
    outliers: Option<OutlierArg>,
    /// Least cosine between a matrix and the original, such as 0.99: a matrix below it gets the next larger type until it is
    /// not; with a target only types above it are chosen
    #[arg(long, value_name = "C", value_parser = parse_cosine)]
    min_cosine: Option<f64>,
    /// Values per scale: 32, 64, 128 or 256
    #[arg(long, visible_alias = "q-group-size", value_name = "N", default_value = "64")]
    block_size: BlockSize,
    /// Compression of layers, used where it saves at least 2 %
    #[arg(long, value_enum, value_name = "METHOD", default_value = "none")]
    compress: CompressArg,
    /// Order of the blocks of a matrix
    #[arg(long, value_enum, value_name = "ORDER", default_value = "panels")]
    layout: LayoutArg,
    /// Choose the types so that the file has at most this size, such as 24MB, and is as good as it can be
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["quant", "target_bpw"])]
    target_size: Option<ByteSize>,
    /// The same by bits per weight over the whole file, such as 3.5
    #[arg(long, value_name = "BITS", conflicts_with = "quant")]
    target_bpw: Option<f64>,
    /// Types of the matrices as JSON: replayed if the file exists, else written once they are chosen
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Text or JSONL to fit the weights to: every matrix is quantized so that what it computes on it changes least; may be
    /// repeated [default: with --target-size or --target-bpw a built-in text]
    #[arg(long, value_name = "TEXT")]
    calibration: Vec<PathBuf>,
    /// Tokens of the calibration text to use [default: from 65536 for models of up to 67 million weights to 32768 for those
    /// of 134 million and more]
    #[arg(long, value_name = "N", requires = "runs_text")]
    calibration_tokens: Option<usize>,
    /// How long to search: max takes several times as long for a few percent less damage
    #[arg(long, value_enum, value_name = "EFFORT", default_value = "normal", requires = "runs_text")]
    effort: EffortArg,
    /// Make texts of the conversations in JSONL files ("messages") by the model's chat template, not one message a line
    #[arg(long, requires = "calibration")]
    chat_template: bool,
    /// Statistics files of this model, instead of running the text through it; may be repeated: they add up. Without
    /// --calibration the weights are fitted to them alone
    #[arg(long, value_name = "FILE", conflicts_with = "stats_out")]
    stats_in: Vec<PathBuf>,
    /// Write the statistics of the calibration text to a file
    #[arg(long, value_name = "FILE")]
    stats_out: Option<PathBuf>,
    /// Print what statistics files hold and stop. With MODEL, before it, also how long the rows of its matrices are, and how
    /// much their outputs vary
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["out", "demo", "dry_run", "plan", "eval", "calibration", "stats_in", "stats_out", "target_size", "target_bpw"])]
    show_stats: Vec<PathBuf>,
    /// Group the tokens of the vocabulary into N clusters, measured on the calibration text, for qsf-run --head clusters [default:
    /// none; without a number 256]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "256", value_parser = clap::value_parser!(u32).range(1..=65536))]
    clusters: Option<u32>,
    /// Text to compare the written file with the model on; the result is printed and stored in the file
    #[arg(long, value_name = "TEXT")]
    eval: Option<PathBuf>,
    /// With --eval: chunks of 512 tokens to use [default: all]
    #[arg(long, value_name = "N", requires = "eval", value_parser = clap::value_parser!(u32).range(1..))]
    eval_chunks: Option<u32>,
    /// Convert although the tokenizer splits some text differently from what the source says
    #[arg(long)]
    skip_tokenizer_check: bool,
    /// Replace OUT.qsf if it exists
    #[arg(short, long)]
    force: bool,
    /// Quantize a model that is quantized already, such as most GGUF files: errors add up
    #[arg(long)]
    allow_requantize: bool,
    /// Predict size, time, memory and, with a target or --calibration, the divergence from MODEL, and stop. With a target the
    /// types are chosen, which takes a part of the time of the conversion; --plan keeps them for it
    #[arg(long, conflicts_with_all = ["out", "force", "eval", "stats_out", "min_cosine", "clusters"])]
    dry_run: bool,
    /// Convert the built-in model at several types, evaluate each and compare
    #[arg(long, conflicts_with_all = ["model", "out", "quant", "tensor_type", "outliers", "min_cosine", "block_size", "compress", "layout", "dry_run", "calibration", "allow_requantize", "revision", "target_size", "target_bpw", "plan", "clusters", "eval", "stats_in", "stats_out", "show_stats"])]
    demo: bool,
    /// With --demo: folder for the files
    #[arg(long, value_name = "DIR", default_value = "demo-out", requires = "demo", conflicts_with = "model")]
    demo_dir: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompressArg {
    /// Tensors usable in place
    None,
    /// Fast to read
    Lz4,
    /// Smaller
    Zstd,
}

impl From<CompressArg> for Compression {
    fn from(arg: CompressArg) -> Compression {
        match arg {
            CompressArg::None => Compression::None,
            CompressArg::Lz4 => Compression::Lz4,
            CompressArg::Zstd => Compression::Zstd,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LayoutArg {
    /// Sixteen rows interleaved, as kernels read them fastest; rows where a tensor has no blocks or fewer rows
    Panels,
    /// One row after another
    Rows,
}

/// `--outliers`.
#[derive(Debug, Clone, Copy)]
struct OutlierArg(OutlierChoice);

impl FromStr for OutlierArg {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Ok(OutlierArg(match s {
            "off" => OutlierChoice::OFF,
            "auto" => OutlierChoice::Auto,
            _ => OutlierChoice::Share(s.parse().map_err(|error| format!("{error}; or off, or auto"))?),
        }))
    }
}

/// `--min-cosine`: what a type can reach.
fn parse_cosine(s: &str) -> Result<f64, String> {
    let cosine = s.parse::<f64>().ok().filter(|cosine| (0.0..1.0).contains(cosine));
    cosine.ok_or_else(|| format!("'{s}' is not a number from 0 to below 1, such as 0.99"))
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
enum EffortArg {
    /// As long as pays
    Normal,
    /// Fit every matrix to what those before it leave, and check the types on the whole model
    Max,
}

impl From<EffortArg> for SearchEffort {
    fn from(arg: EffortArg) -> SearchEffort {
        match arg {
            EffortArg::Normal => SearchEffort::Normal,
            EffortArg::Max => SearchEffort::Max,
        }
    }
}

/// Tokens of the text that vocabulary clusters are measured on.
const CLUSTER_TOKENS: usize = 4096;

/// Tokens per chunk of an evaluation, as llama.cpp's tools have it.
const EVAL_CTX: usize = 512;

const EXAMPLES: &str = "Examples:
  qsf-convert ./Llama-3.2-1B llama.qsf --quant 4bit
  qsf-convert model-f16.gguf model.qsf
  qsf-convert ./gpt2 --quant mixed --tensor-type 'layer 0 *=8bit'
  qsf-convert --demo

Exit codes: 0 ok, 2 usage, 3 bad input, 4 unsupported model, 5 out of memory or disk, 130 interrupted.";

fn main() -> ExitCode {
    let args = Args::parse();
    exit_with(run(&args), |error| {
        error.downcast_ref::<ConvertError>().map(ConvertError::failure).or_else(|| classify(error))
    })
}

fn run(args: &Args) -> anyhow::Result<()> {
    let cpu = args.compute.start()?;
    let cancel = cancel_on_interrupt()?;
    if args.demo {
        return demo(args, &cpu, &cancel);
    }
    if !args.show_stats.is_empty() {
        return show_stats(args, &cpu);
    }
    let Some(model) = &args.model else {
        return Err(RuntimeError::Request("no model given".into()).into());
    };
    let progress = ProgressLine::default();
    let (reference, name) = name_model(args, model)?;
    let out = args.out.clone().unwrap_or_else(|| default_name(&name, &type_name(args)));
    let model = match reference {
        // Found now, not after the download.
        Some(_) if !args.dry_run && !args.force && out.symlink_metadata().is_ok() => {
            return Err(FormatError::Exists { path: out }.into());
        }
        Some(reference) => fetch(&reference, &progress, &cancel).map_err(ConvertError::from)?,
        None => model.clone(),
    };
    let source = source::open(&model)?;
    let source = source.as_ref();
    if args.dry_run {
        return dry_run(args, &name, source, &cpu, (&progress, &cancel));
    }
    let (options, plan_to_write) = choose_options(args, source)?;
    let conversion = convert(source, &out, &options, &cpu, &progress, &cancel).inspect_err(|error| {
        let journal = journal_path(&out);
        // After other errors the same command would come to the same end.
        let stopped = matches!(error.failure(), Failure::Interrupted | Failure::OutOfSpace);
        if stopped && journal.exists() {
            progress.note(&format!(
                "{} keeps what is done: the same command goes on from there",
                journal.display()
            ));
        }
    })?;
    if let Some(path) = plan_to_write {
        write_plan(path, &conversion.plan)?;
    }
    report(args, &conversion, &name, &out)
}

/// The options of the conversion, and where its plan is to be written.
fn choose_options<'a>(
    args: &'a Args,
    source: &dyn WeightSource,
) -> anyhow::Result<(ConvertOptions, Option<&'a Path>)> {
    let weights: u64 = source.tensors().iter().map(|t| t.rows as u64 * t.cols as u64).sum();
    let size_limit = match (args.target_size, args.target_bpw) {
        (Some(ByteSize(bytes)), _) => Some(bytes),
        (None, Some(bits)) if bits > 0.0 && bits <= 32.0 => Some((weights as f64 * bits / 8.0) as u64),
        (None, Some(bits)) => {
            let problem = format!("--target-bpw {bits}: bits per weight are between 0 and 32");
            return Err(RuntimeError::Request(problem).into());
        }
        (None, None) => None,
    };
    let replayed = args.plan.as_deref().filter(|path| path.exists());
    if let (Some(path), Some(_)) = (replayed, size_limit) {
        let problem = format!("--plan {} gives every type already: leave out the target", path.display());
        return Err(RuntimeError::Request(problem).into());
    }
    let mut overrides = replayed.map(read_plan).transpose()?.unwrap_or_default();
    overrides.extend(args.tensor_type.iter().cloned());
    let calibrated = !args.calibration.is_empty() || size_limit.is_some() || args.stats_out.is_some();
    let calibration = if calibrated {
        Some(calibrate(source, &args.calibration, args.calibration_tokens, args.chat_template)?)
    } else {
        None
    };
    let clusters = match args.clusters {
        Some(count) => Some(ClusterOptions {
            count,
            text: calibrate(source, &args.calibration, Some(CLUSTER_TOKENS), args.chat_template)?,
        }),
        None => None,
    };
    let evaluation = match &args.eval {
        Some(path) => {
            let chunks = args.eval_chunks.map(|chunks| chunks as usize);
            Some(EvaluationText { text: read_text(path)?, ctx: EVAL_CTX, chunks })
        }
        None => None,
    };
    let options = ConvertOptions {
        recipe: args.quant,
        outliers: choose_outliers(args)?,
        min_cosine: args.min_cosine,
        overrides,
        block: args.block_size,
        compression: args.compress.into(),
        layout: args.layout.into(),
        force: args.force,
        skip_tokenizer_check: args.skip_tokenizer_check,
        allow_requantize: args.allow_requantize,
        calibration,
        stats_in: args.stats_in.clone(),
        stats_out: args.stats_out.clone(),
        size_limit,
        effort: args.effort.into(),
        clusters,
        evaluation,
    };
    Ok((options, args.plan.as_deref().filter(|_| replayed.is_none())))
}

/// What `--outliers` asks for, or else what suits the other options.
fn choose_outliers(args: &Args) -> Result<OutlierChoice, RuntimeError> {
    let chooses = args.target_size.is_some() || args.target_bpw.is_some();
    match args.outliers {
        Some(OutlierArg(OutlierChoice::Auto)) if !chooses => {
            let problem =
                "--outliers auto goes with --target-size or --target-bpw; without, give a share such as 0.5%";
            Err(RuntimeError::Request(problem.into()))
        }
        Some(OutlierArg(choice)) => Ok(choice),
        None => Ok(if chooses { OutlierChoice::Auto } else { OutlierChoice::OFF }),
    }
}

fn report(args: &Args, conversion: &Conversion, name: &str, out: &Path) -> anyhow::Result<()> {
    if args.json {
        let mut value = conversion_json(conversion);
        value["path"] = json!(out.display().to_string());
        value["model"] = json!(name);
        value["type"] = json!(type_name(args));
        print(&format!("{value:#}\n"))?;
    } else {
        let table = conversion_table(conversion, args.block_size);
        print(&format!("{table}{}: written and verified\n", out.display()))?;
    }
    Ok(())
}

/// Prints what statistics files hold together.
fn show_stats(args: &Args, cpu: &Cpu) -> anyhow::Result<()> {
    let source = args.model.as_deref().map(source::open).transpose()?;
    let report = StatsReport::new(&args.show_stats, source.as_deref(), cpu)?;
    print(&if args.json { format!("{:#}\n", report.to_json()) } else { report.to_table() })?;
    Ok(())
}

/// What stands for the types of the matrices in names and reports.
fn type_name(args: &Args) -> String {
    match (args.target_size, args.target_bpw) {
        (Some(ByteSize(bytes)), _) => human_bytes(bytes).replace(' ', ""),
        (None, Some(bits)) => format!("{bits}bpw"),
        (None, None) => args.quant.name().to_owned(),
    }
}

/// The model of the hub that MODEL names, if it names one, and what to call the model.
fn name_model(args: &Args, model: &Path) -> Result<(Option<Reference>, String), ConvertError> {
    match (Reference::of_argument(model)?, &args.revision) {
        (Some(reference), Some(revision)) => {
            let reference = reference.at_revision(revision)?;
            Ok((Some(reference.clone()), reference.name().to_owned()))
        }
        (Some(reference), None) => Ok((Some(reference.clone()), reference.name().to_owned())),
        (None, Some(_)) => {
            let problem = format!("--revision: {} is a path, not a model of the hub", model.display());
            Err(RuntimeError::Request(problem).into())
        }
        (None, None) => Ok((None, model_name(model))),
    }
}

/// Downloads the model; gives its place on disk.
#[cfg(feature = "hub")]
fn fetch(reference: &Reference, progress: &ProgressLine, cancel: &Cancel) -> Result<PathBuf, HubError> {
    use qsf_converter::hub::{Settings, Watch, download};
    let settings = Settings::from_env()?;
    download(reference, &settings, &Watch { progress, notice: &|text| progress.note(text), cancel })
}

/// Says how the model can be had.
#[cfg(not(feature = "hub"))]
fn fetch(reference: &Reference, _progress: &ProgressLine, _cancel: &Cancel) -> Result<PathBuf, HubError> {
    Err(HubError::NotBuilt { text: reference.to_string(), repo: reference.repo().to_owned() })
}

/// MODEL's own name and the type, in the current directory.
fn default_name(name: &str, types: &str) -> PathBuf {
    let stem = [".gguf", ".qsf"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    PathBuf::from(format!("{stem}-{types}.qsf"))
}

/// Prints what the conversion would give and take; with --plan and a target, writes the types that it would choose.
fn dry_run(
    args: &Args,
    name: &str,
    source: &dyn WeightSource,
    cpu: &Cpu,
    (progress, cancel): (&ProgressLine, &Cancel),
) -> anyhow::Result<()> {
    let (options, plan_to_write) = choose_options(args, source)?;
    let found = predict(source, &options, cpu, progress, cancel)?;
    if let Some(path) = plan_to_write {
        write_plan(path, &found.plan)?;
    }
    let quantized_from = source.quantized_from();
    let needs_permission = !quantized_from.is_empty() && found.plan.quantizes() && !args.allow_requantize;
    if args.json {
        let mut value = prediction_json(&found, args.block_size);
        value["model"] = json!(name);
        value["type"] = json!(type_name(args));
        value["compressed"] = json!(options.compression != Compression::None);
        value["quantized_from"] = json!(quantized_from);
        value["needs_allow_requantize"] = json!(needs_permission);
        print(&format!("{value:#}\n"))?;
        return Ok(());
    }
    let mut out = String::new();
    if options.size_limit.is_some() {
        out += &plan_table(&found.plan, args.block_size);
        out += "\n";
    }
    out += &prediction_lines(
        &found,
        &format!("{name} as {}", type_name(args)),
        options.compression != Compression::None,
    );
    if needs_permission {
        let types = quantized_from.join(", ");
        out += &format!("already quantized ({types}): the conversion needs --allow-requantize\n");
    }
    print(&out)?;
    Ok(())
}

fn demo(args: &Args, cpu: &Cpu, cancel: &Cancel) -> anyhow::Result<()> {
    let lines = run_demo(&args.demo_dir, cpu, &ProgressLine::default(), cancel)?;
    if args.json {
        let value = json!({ "folder": args.demo_dir.display().to_string(), "files": lines });
        print(&format!("{value:#}\n"))?;
    } else {
        // Under `cargo run` nothing is installed: the suggestion must work as it stands.
        let run = if std::env::var_os("CARGO").is_some() {
            "cargo run --release --bin qsf-run --"
        } else {
            "qsf-run"
        };
        print(&format!(
            "{}\nThe files are in {}. Try: {run} {} -p \"Once upon a time\" -n 32\n",
            demo_table(&lines),
            args.demo_dir.display(),
            args.demo_dir.join("demo-1m-4bit.qsf").display()
        ))?;
    }
    Ok(())
}
