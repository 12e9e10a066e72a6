//! `--prompts`: texts that continue many prompts, packed into the steps of the model, as lines of JSON in their order.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use qsf_runtime::progress::Unwatched;
use qsf_runtime::text_file::read_text;
use qsf_runtime::{Decoder, Result, RuntimeError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::args::{RunArgs, UNTIL_FULL};
use super::results::Results;
use super::session::Session;
use crate::interrupt::cancel_on_interrupt;
use crate::kept_model::{BatchRequest, DEFAULT_SEQUENCES, TextRequest};

/// Flags of many prompts.
#[derive(Debug, Clone, Args)]
pub(super) struct PromptsArgs {
    /// File with a prompt in each line: {"prompt": TEXT}, also with "id"; prints a line of JSON for each, in their order
    #[arg(long, value_name = "FILE", groups = ["input", "lines"],
          conflicts_with_all = ["json", "interactive", "measure", "tokenize", "system", "memory_plan"])]
    pub(super) prompts: Option<PathBuf>,
    /// With --prompts or --classify: where these lines go; a run that was stopped goes on behind those that are there
    #[arg(long, value_name = "FILE")]
    pub(super) results: Option<PathBuf>,
    /// With --prompts: texts that grow at once, at most [default: 64]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) sequences: Option<usize>,
}

/// `--sequences`.
fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("expected a number above 0, found '{text}'"))
}

/// A line of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptLine {
    /// Its number in the file, from 1.
    #[serde(skip)]
    pub line: usize,
    /// The text to continue.
    pub prompt: String,
    /// What the line of the result has, too.
    #[serde(default)]
    pub id: Option<Value>,
}

/// The prompts of a file.
///
/// # Errors
/// When the file cannot be read, or a line is none; the message names it.
pub(super) fn read_prompts(path: &Path) -> Result<Vec<PromptLine>> {
    let text = read_text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let prompts = lines.map(|(number, line)| {
        let parsed = serde_json::from_str::<PromptLine>(line);
        let parsed = parsed.ok().filter(|line| !line.prompt.is_empty());
        parsed.map(|parsed| PromptLine { line: number + 1, ..parsed }).ok_or_else(|| {
            let expected = "a JSON object with a \"prompt\" that is not empty, and perhaps an \"id\"";
            let found = line.chars().take(60).collect::<String>();
            RuntimeError::bad_input(path, format!("line {}", number + 1), expected, found.escape_debug())
        })
    });
    let prompts = prompts.collect::<Result<Vec<_>>>()?;
    if prompts.is_empty() {
        return Err(RuntimeError::bad_input(path, "the file", "a prompt in each line", "no line"));
    }
    Ok(prompts)
}

/// The prompts of a run, with their tokens.
pub(super) struct Prompts {
    pub lines: Vec<PromptLine>,
    pub tokens: Vec<Vec<u32>>,
}

impl Prompts {
    /// The one with most tokens.
    pub fn longest(&self) -> &[u32] {
        self.tokens.iter().max_by_key(|tokens| tokens.len()).map_or(&[], |tokens| tokens)
    }
}

/// Continues all prompts, and writes each result as soon as those before it are there.
pub(super) fn answer_prompts(decoder: Decoder, args: &RunArgs, session: Session) -> anyhow::Result<()> {
    let cancel = cancel_on_interrupt()?;
    cancel.check()?;
    let (model, prompts) = session.keep(decoder, args)?;
    let (sampling, seed) = args.sampling.options()?;
    let options = |length: usize| TextRequest {
        prompt: String::new(),
        max_tokens: args
            .max_tokens
            .map(|most| if most == UNTIL_FULL { model.context.saturating_sub(length) } else { most }),
        sampling,
        chat: false,
        system_prompt: None,
        stop: args.stop.clone(),
        ignore_eos: args.ignore_eos,
    };
    let mut results = Results::open("prompt_result", args.many.results.as_deref(), &prompts.lines)?;
    let done = results.done();
    let requests: Vec<BatchRequest> = prompts.tokens[done..]
        .iter()
        .map(|tokens| BatchRequest { prompt: tokens.clone(), options: options(tokens.len()) })
        .collect();
    let started = Instant::now();
    let (mut prompt_tokens, mut tokens) = (0, 0);
    let sequences = args.many.sequences.unwrap_or(DEFAULT_SEQUENCES);
    model.generate_batch(&requests, sequences, &cancel, &Unwatched, &mut |number, text| {
        prompt_tokens += text.prompt_tokens;
        tokens += text.tokens;
        let members = json!({
            "text": text.text,
            "tokens": text.tokens,
            "prompt_tokens": text.prompt_tokens,
            "stop_reason": text.stop,
            "seed": seed,
        });
        results.put(done + number, &members)
    })?;
    if args.verbose {
        let seconds = started.elapsed().as_secs_f64();
        writeln!(
            std::io::stderr(),
            "{} prompts of {prompt_tokens} tokens, {tokens} tokens generated in {seconds:.2} s, {:.1} tokens/s",
            requests.len(),
            tokens as f64 / seconds
        )?;
    }
    Ok(())
}
