//! The command line of `qsf-run`.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Parser};
use qsf_runtime::Result;
use qsf_runtime::sample::{Sampler, SamplerOptions};
use qsf_runtime::text_file::{TextFile, TextInMemory, TextSource, read_text};

use super::{InteractiveArgs, TokenizeArgs};
use crate::bench::BenchArgs;
use crate::compute::ComputeArgs;
use crate::model_args::{ActivationArgs, DeviceArgs, KvArgs, ShortcutArgs, StreamArgs};

const EXAMPLES: &str = "Examples:
  qsf-run model.qsf -p \"Once upon a time\" -n 64 --temp 0
  qsf-run model.qsf --chat -p \"Name three trees.\" --temp 0
  qsf-run model.qsf -i --system-prompt \"Be short.\"
  qsf-run ./model-dir -p \"Once upon a time\" --json
  qsf-run model.qsf -p \"Once upon a time\" --head clusters
  qsf-run model.qsf -p \"Once upon a time\" --quality 0.8
  qsf-run model.qsf -p \"Once upon a time\" --early-exit 0.9
  qsf-run model.qsf --tokenize -f text.txt --json
  qsf-run model.qsf --bench --pp 128,512 --tg 64 -t 1,2 --verbose
  qsf-run --kernel 4bit/1 -t 1
  qsf-run --system

QSF_CPU=scalar|avx2 forces an instruction set.
Exit codes: 0 ok, 2 usage, 3 bad input, 4 unsupported model, 5 out of memory, 130 interrupted.";

/// Generates text with a QSF file or a source model.
#[derive(Debug, Parser)]
#[command(name = "qsf-run", version, after_help = EXAMPLES)]
pub struct RunArgs {
    /// QSF file; or HuggingFace directory or GGUF file (run at full precision)
    #[arg(value_name = "MODEL", required_unless_present_any = ["system", "kernel"])]
    pub(super) model: Option<PathBuf>,
    /// Text to continue
    #[arg(short, long, value_name = "TEXT", group = "input")]
    pub(super) prompt: Option<String>,
    /// File whose text to continue
    #[arg(short, long, value_name = "FILE", group = "input")]
    pub(super) file: Option<PathBuf>,
    /// Token ids to continue instead of text
    #[arg(long, value_name = "IDS", value_delimiter = ',', group = "input")]
    pub(super) prompt_ids: Option<Vec<u32>>,
    /// Tokens to generate at most [default: 256, or what the context leaves]
    #[arg(short = 'n', long, visible_alias = "n-predict", value_name = "N")]
    pub(super) max_tokens: Option<usize>,
    /// Context in tokens: prompt and output together [default: what they need; with --interactive up to 4096]
    #[arg(short, long, value_name = "N")]
    pub(super) ctx_size: Option<usize>,
    /// Take the prompt as what a user says, in the model's chat template, and answer it
    #[arg(long, requires = "input", group = "conversation", conflicts_with_all = ["prompt_ids", "measure", "tokenize", "system"])]
    pub(super) chat: bool,
    #[command(flatten)]
    pub(super) interactive: InteractiveArgs,
    /// With --chat or --interactive: what the model is told before
    #[arg(long, visible_alias = "sys", value_name = "TEXT", requires = "conversation")]
    pub(super) system_prompt: Option<String>,
    #[command(flatten)]
    pub(super) sampling: SamplingArgs,
    #[command(flatten)]
    pub(super) activations: ActivationArgs,
    #[command(flatten)]
    pub(super) shortcuts: ShortcutArgs,
    #[command(flatten)]
    pub(super) stream: StreamArgs,
    #[command(flatten)]
    pub(super) kv: KvArgs,
    #[command(flatten)]
    pub(super) tokens: TokenizeArgs,
    #[command(flatten)]
    pub(super) bench: BenchArgs,
    /// Show threads, instruction sets and the kernels chosen for each type
    #[arg(long, conflicts_with_all = ["model", "measure", "input", "max_tokens", "ctx_size", "temperature", "top_k", "top_p", "min_p", "seed", "verbose", "activations", "head", "quality", "early_exit", "kv_type", "kv_window", "kv_policy", "ram_budget", "memory_plan", "io", "device"])]
    pub(super) system: bool,
    /// Print one JSON object at the end instead of streaming text
    #[arg(long)]
    pub(super) json: bool,
    /// Print timings to stderr; with --bench, show where the time goes
    #[arg(short, long)]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) device: DeviceArgs,
    #[command(flatten)]
    pub(super) compute: ComputeArgs,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub(super) struct SamplingArgs {
    /// Temperature; 0 always takes the likeliest token
    #[arg(long, visible_alias = "temp", value_name = "T", default_value_t = 0.7)]
    pub(super) temperature: f32,
    /// Keep the K likeliest tokens; 0 keeps all [default: 40]
    #[arg(long, value_name = "K")]
    pub(super) top_k: Option<usize>,
    /// Keep the likeliest tokens until their probabilities reach P; 1 keeps all [default: 0.9]
    #[arg(long, value_name = "P")]
    pub(super) top_p: Option<f32>,
    /// Keep tokens at least P times as likely as the likeliest; 0 keeps all [default: 0]
    #[arg(long, value_name = "P")]
    pub(super) min_p: Option<f32>,
    /// Seed of the random choices [default: from the clock, shown by --verbose and --json]
    #[arg(short, long, value_name = "N")]
    pub(super) seed: Option<u64>,
}

impl RunArgs {
    /// The text of -p or -f, to be read piece by piece.
    pub(super) fn input(&self) -> Result<Box<dyn TextSource + '_>> {
        Ok(match (&self.prompt, &self.file) {
            (None, Some(file)) => Box::new(TextFile::open(file)?),
            (text, _) => Box::new(TextInMemory::new(text.as_deref().unwrap_or_default(), Path::new("-p"))),
        })
    }

    /// The text of -p or -f, where it is needed as a whole.
    pub(super) fn text(&self) -> Result<String> {
        match (&self.prompt, &self.file) {
            (Some(text), _) => Ok(text.clone()),
            (None, Some(file)) => read_text(file),
            (None, None) => Ok(String::new()),
        }
    }

    /// Whether the text of -p or -f is empty.
    pub(super) fn has_no_text(&self) -> Result<bool> {
        let mut first = String::new();
        Ok(!self.input()?.read_piece(&mut first)?)
    }

    /// Whether there is something to continue.
    pub(super) fn has_input(&self) -> bool {
        self.prompt.is_some() || self.file.is_some() || self.prompt_ids.is_some()
    }
}

impl SamplingArgs {
    /// The sampler that the flags ask for, and its seed. Says which of them change nothing: not an error, as whoever tries
    /// several temperatures has the others on the same line.
    pub(super) fn sampler(&self) -> Result<(Sampler, u64)> {
        let idle = self.without_effect();
        if !idle.is_empty() {
            let flags = idle.join(", ");
            eprintln!("note: {flags}: without effect at --temp 0, which always takes the likeliest token");
        }
        let seed = self.seed.unwrap_or_else(clock_seed);
        let (top_k, top_p, min_p) =
            (self.top_k.unwrap_or(40), self.top_p.unwrap_or(0.9), self.min_p.unwrap_or(0.0));
        let options = SamplerOptions::new(self.temperature, top_k, top_p, min_p, seed)?;
        Ok((Sampler::new(options), seed))
    }
}

impl SamplingArgs {
    /// The flags given that change nothing.
    fn without_effect(&self) -> Vec<&'static str> {
        if self.temperature != 0.0 {
            return Vec::new();
        }
        let flags = [
            ("--top-k", self.top_k.is_some()),
            ("--top-p", self.top_p.is_some()),
            ("--min-p", self.min_p.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }
}

fn clock_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
