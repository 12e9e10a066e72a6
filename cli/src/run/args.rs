//! The command line of `qsf-run`.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use qsf_runtime::stop_text::StopTexts;
use qsf_runtime::text_file::{TextFile, TextInMemory, TextSource, read_text};
use qsf_runtime::{Date, Result, RuntimeError};

use super::attention_args::AttentionArgs;
use super::many_args::{ClassifyArgs, PromptsArgs};
use super::sampling::SamplingArgs;
use super::{InteractiveArgs, TokenizeArgs};
use crate::bench::BenchArgs;
use crate::compute::ComputeArgs;
use crate::model_args::{ActivationArgs, DeviceArgs, HugePageArgs, KvArgs, ShortcutArgs, StreamArgs};

const EXAMPLES: &str = "Examples:
  qsf-run model.qsf -p \"Once upon a time\" -n 64 --temp 0
  qsf-run model.qsf --chat -p \"Name three trees.\" --temp 0
  qsf-run model.qsf --prompts prompts.jsonl --results texts.jsonl -n 64 --temp 0
  qsf-run model.qsf --classify reviews.jsonl --label \" good\" --label \" bad\"
  qsf-run model.qsf -p \"Once upon a time\" --attention look.safetensors
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
    /// File whose text to continue; - for stdin
    #[arg(short, long, value_name = "FILE", group = "input")]
    pub(super) file: Option<PathBuf>,
    /// Token ids to continue instead of text
    #[arg(long, value_name = "IDS", value_delimiter = ',', group = "input")]
    pub(super) prompt_ids: Option<Vec<u32>>,
    #[command(flatten)]
    pub(super) many: PromptsArgs,
    #[command(flatten)]
    pub(super) classes: ClassifyArgs,
    #[command(flatten)]
    pub(super) look: AttentionArgs,
    /// Tokens to generate at most; -1: until the context is full [default: 256, or what the context leaves]
    #[arg(short = 'n', long, visible_alias = "n-predict", value_name = "N", value_parser = token_count)]
    pub(super) max_tokens: Option<usize>,
    /// Context in tokens: prompt and output together [default: what they need; with --interactive up to 4096]
    #[arg(short, long, visible_alias = "ctx", value_name = "N", value_parser = context_size)]
    pub(super) ctx_size: Option<usize>,
    /// End the output before this text; may be repeated
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["measure", "tokenize", "system"])]
    pub(super) stop: Vec<String>,
    /// Go on where the model would end its output
    #[arg(long, conflicts_with_all = ["measure", "tokenize", "system"])]
    pub(super) ignore_eos: bool,
    /// Take the prompt as what a user says, in the model's chat template, and answer it
    #[arg(long, requires = "input", group = "conversation", conflicts_with_all = ["prompt_ids", "measure", "tokenize", "system"])]
    pub(super) chat: bool,
    #[command(flatten)]
    pub(super) interactive: InteractiveArgs,
    /// With --chat or --interactive: what the model is told before
    #[arg(long, visible_alias = "sys", value_name = "TEXT", requires = "conversation")]
    pub(super) system_prompt: Option<String>,
    /// With --chat or --interactive: the day that a chat template may ask for [default: today, UTC]
    #[arg(long, value_name = "YYYY-MM-DD", requires = "conversation")]
    pub(super) date: Option<Date>,
    #[command(flatten)]
    pub(super) sampling: SamplingArgs,
    #[command(flatten)]
    pub(super) activations: ActivationArgs,
    #[command(flatten)]
    pub(super) shortcuts: ShortcutArgs,
    #[command(flatten)]
    pub(super) stream: StreamArgs,
    #[command(flatten)]
    pub(super) huge_pages: HugePageArgs,
    #[command(flatten)]
    pub(super) kv: KvArgs,
    #[command(flatten)]
    pub(super) tokens: TokenizeArgs,
    #[command(flatten)]
    pub(super) bench: BenchArgs,
    /// Show threads, instruction sets and the kernels chosen for each type
    #[arg(long, conflicts_with_all = ["model", "measure", "input", "max_tokens", "ctx_size", "temperature", "top_k", "top_p", "min_p", "seed", "repeat_penalty", "presence_penalty", "frequency_penalty", "repeat_last_n", "verbose", "activations", "lora", "head", "quality", "early_exit", "kv_type", "kv_window", "kv_policy", "ram_budget", "memory_plan", "io", "huge_pages", "device"])]
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

/// What `-n` means where it is to go on until the context is full.
pub(super) const UNTIL_FULL: usize = usize::MAX;

/// `-n`: llama.cpp's -1 (no end) and -2 (until the context is full) are the same here, as no context is shifted.
fn token_count(text: &str) -> std::result::Result<usize, String> {
    match text {
        "-1" | "-2" => Ok(UNTIL_FULL),
        "0" => {
            Err("expected at least 1 token to generate, or -1 for as many as the context has room for".into())
        }
        _ => text.parse::<usize>().map(|tokens| tokens.min(UNTIL_FULL - 1)).map_err(|_| {
            format!(
                "expected a number of tokens, or -1 for as many as the context has room for, found '{text}'"
            )
        }),
    }
}

/// `-c`, of which llama.cpp's 0 is the model's own.
fn context_size(text: &str) -> std::result::Result<usize, String> {
    let tokens = text.parse().ok().filter(|tokens| *tokens > 0);
    tokens.ok_or_else(|| {
        format!("expected a number of tokens above 0, found '{text}'; without -c it is what prompt and output need")
    })
}

impl RunArgs {
    /// Texts that end the output.
    pub(super) fn stop_texts(&self) -> StopTexts {
        StopTexts::new(self.stop.iter().cloned())
    }

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

    /// The file with many prompts, and the flag that it came by.
    pub(super) fn lines(&self) -> Option<(&Path, &'static str)> {
        let prompts = self.many.prompts.as_deref().map(|path| (path, "--prompts"));
        prompts.or_else(|| self.classes.classify.as_deref().map(|path| (path, "--classify")))
    }

    /// That flags of many prompts are there only with these. clap does not ask for what other flags exclude.
    pub(super) fn check_lines(&self) -> Result<()> {
        let (prompts, classify) = (self.many.prompts.is_some(), self.classes.classify.is_some());
        let alone = [
            (
                !self.many.sequences.is_empty() && !prompts && !self.bench.bench,
                "--sequences: only with --prompts or --bench",
            ),
            (
                self.many.sequences.len() > 1 && !self.bench.bench,
                "--sequences: a list of several numbers is for --bench",
            ),
            (!self.classes.label.is_empty() && !classify, "--label: only with --classify"),
            (
                self.many.results.is_some() && !prompts && !classify,
                "--results: only with --prompts or --classify",
            ),
        ];
        let problem = alone.into_iter().find(|(is_alone, _)| *is_alone);
        problem.map_or(Ok(()), |(_, problem)| Err(RuntimeError::Request(problem.into())))
    }

    /// The day that chat templates are told.
    pub(super) fn today(&self) -> Date {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.date.unwrap_or_else(|| Date::of_unix_seconds(now().as_secs()))
    }

    /// Whether there is something to continue.
    pub(super) fn has_input(&self) -> bool {
        self.prompt.is_some() || self.file.is_some() || self.prompt_ids.is_some() || self.lines().is_some()
    }
}
