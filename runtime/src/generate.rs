//! Text generation: a prompt in one or more large steps, then one token a step.

use std::time::{Duration, Instant};

use serde::Serialize;

pub use crate::decoder::PROMPT_BATCH;
use crate::error::{Result, RuntimeError};
use crate::runner::{Runner, Sequence};
use crate::sample::Sampler;

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// One of the stop tokens was sampled.
    StopToken,
    /// One of the stop texts came.
    StopText,
    /// As many tokens as asked for.
    MaxTokens,
    /// The user asked to stop.
    Interrupted,
}

/// Whether a generation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// With the next token.
    Continue,
    /// No more, as a stop text came.
    Stop,
}

/// What came out of a generation.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Generated tokens, the stop token not among them.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub stop: StopReason,
    /// Time for the prompt.
    pub prefill: Duration,
    /// Time for all tokens after the first, which falls out of the prompt.
    pub decode: Duration,
}

/// Checks that a prompt and an output fit a context.
///
/// # Errors
/// When the prompt is empty, or prompt and output together exceed `context`.
pub fn check_lengths(prompt: usize, output: usize, context: usize) -> Result<()> {
    if prompt == 0 {
        return Err(RuntimeError::Request(
            "the prompt is empty: pass text with -p, and with this tokenizer at least one character".into(),
        ));
    }
    if prompt >= context {
        return Err(RuntimeError::Request(format!(
            "the prompt of {prompt} tokens leaves no room in the context of {context} tokens: shorten it"
        )));
    }
    if prompt.saturating_add(output) > context {
        return Err(RuntimeError::Request(format!(
            "{prompt} prompt tokens and {output} tokens of output exceed the context of {context} tokens; \
             ask for at most {} with -n",
            context - prompt
        )));
    }
    Ok(())
}

/// What to generate.
#[derive(Debug, Clone, Copy)]
pub struct GenerateRequest<'a> {
    /// Tokens to continue.
    pub prompt: &'a [u32],
    /// Most tokens to generate.
    pub max_tokens: usize,
    /// Tokens that end the generation.
    pub stop_tokens: &'a [u32],
}

/// Generates tokens behind a prompt. `on_token` sees each token as soon as it is known, and may end it. A stop requested of the
/// runner ends it with what there is.
///
/// # Errors
/// When the prompt is empty or does not fit, a token is beyond the vocabulary, the logits are not numbers, or `on_token`
/// fails.
pub fn generate<R: Runner>(
    runner: &R,
    state: &mut R::State,
    request: GenerateRequest<'_>,
    sampler: &mut Sampler,
    mut on_token: impl FnMut(u32) -> Result<Flow>,
) -> Result<Generation> {
    let GenerateRequest { prompt, max_tokens, stop_tokens } = request;
    check_lengths(prompt.len(), max_tokens, state.context() - state.position())?;
    let mut logits = vec![0.0; runner.config().vocab as usize];
    let mut tokens = Vec::with_capacity(max_tokens);
    let started = Instant::now();
    let mut prefill = Duration::ZERO;
    sampler.accept(prompt);
    let mut produce = || -> Result<StopReason> {
        let mut rows = 0;
        for batch in prompt.chunks(state.batch()) {
            runner.forward(state, batch)?;
            rows = batch.len();
        }
        prefill = started.elapsed();
        while tokens.len() < max_tokens {
            let row = if tokens.is_empty() { rows - 1 } else { 0 };
            let token = runner.sample(state, row, sampler, &mut logits)?;
            if tokens.is_empty() {
                prefill = started.elapsed();
            }
            if stop_tokens.contains(&token) {
                return Ok(StopReason::StopToken);
            }
            tokens.push(token);
            sampler.accept(&[token]);
            if on_token(token)? == Flow::Stop {
                return Ok(StopReason::StopText);
            }
            runner.cancel().check()?;
            if tokens.len() < max_tokens {
                runner.decode(state, token)?;
            }
        }
        Ok(StopReason::MaxTokens)
    };
    // What was generated until an interruption is still worth having.
    let stop = match produce() {
        Err(RuntimeError::Interrupted) => StopReason::Interrupted,
        stop => stop?,
    };
    Ok(Generation { tokens, stop, prefill, decode: started.elapsed().saturating_sub(prefill) })
}
