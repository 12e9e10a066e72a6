//! Perplexity of a model on a token sequence, alone or side by side with another model.

use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::Serialize;

use super::divergence::{Divergence, DivergenceSum};
use super::row::{compare, nll};
use crate::cpu::KvTypes;
use crate::decoder::{KvKeep, KvOptions};
use crate::error::{Result, RuntimeError};
use crate::generate::PROMPT_BATCH;
use crate::memory::zeros;
use crate::progress::Progress;
use crate::runner::{Runner, Sequence};

/// Most positions whose logits are held at once.
const LOGIT_ROWS: usize = 64;

/// Most logits held at once, 256 MiB.
const MAX_LOGITS: usize = 1 << 26;

/// What to evaluate.
#[derive(Debug, Clone, Copy)]
pub struct EvalOptions {
    /// Tokens per chunk.
    pub ctx: usize,
    /// Chunks to evaluate; all whole chunks of the text without it.
    pub chunks: Option<usize>,
    /// The token that the tokenizer puts before a text, where it does.
    pub bos: Option<u32>,
    /// How the model's keys and values are kept.
    pub kv: KvOptions,
    /// How those of the base are stored.
    pub base_kv: KvTypes,
    /// Tokens of a step at most. Where not all positions are kept, steps are short, as positions are let go between them.
    pub step: usize,
    /// Positions whose logits are held at once, at most.
    pub logit_rows: usize,
}

impl Default for EvalOptions {
    fn default() -> EvalOptions {
        EvalOptions {
            ctx: 512,
            chunks: None,
            bos: None,
            kv: KvTypes::F16.into(),
            base_kv: KvTypes::F16,
            step: PROMPT_BATCH,
            logit_rows: LOGIT_ROWS,
        }
    }
}

/// Result of [`evaluate`]. The field names are those of `qsf-eval --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Perplexity: exp of the mean negative log-likelihood.
    pub ppl: f64,
    /// Standard error of the perplexity.
    pub ppl_stderr: f64,
    /// Scored positions.
    pub tokens: usize,
    /// Chunks.
    pub chunks: usize,
    /// Tokens per chunk.
    pub ctx: usize,
    /// Wall time.
    pub seconds: f64,
    /// How scored tokens were decoded, one by one, where the model may be left early.
    #[serde(flatten)]
    pub decoding: Option<Decoding>,
    /// Distance from the base model, where one was given.
    #[serde(flatten)]
    pub divergence: Option<Divergence>,
}

/// How tokens were decoded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Decoding {
    /// Layers that each went through, on average.
    pub layers_per_token: f64,
    /// How fast, with the head.
    pub tokens_per_second: f64,
}

/// Evaluates `model` on `tokens`; with `base`, chunk by chunk side by side, so that no logits are stored.
///
/// # Errors
/// When the text has not one whole chunk, the models' vocabularies differ, or the user interrupts.
pub fn evaluate<R: Runner>(
    model: &R,
    base: Option<&R>,
    tokens: &[u32],
    options: EvalOptions,
    progress: &dyn Progress,
) -> Result<Evaluation> {
    let EvalOptions { ctx, bos, kv, base_kv, .. } = options;
    if ctx < 4 {
        return Err(RuntimeError::Request(format!(
            "a chunk of {ctx} tokens is too short: --ctx must be at least 4"
        )));
    }
    let available = tokens.len() / ctx;
    let chunks = options.chunks.unwrap_or(available).min(available);
    if chunks == 0 {
        return Err(RuntimeError::Request(format!(
            "the text has {} tokens, less than one chunk of {ctx}: pass a longer text or a smaller --ctx",
            tokens.len()
        )));
    }
    let vocab = model.config().vocab;
    if let Some(base) = base.filter(|b| b.config().vocab != vocab) {
        return Err(RuntimeError::Request(format!(
            "the models have vocabularies of {vocab} and {}: their distributions cannot be compared",
            base.config().vocab
        )));
    }
    check_tokens(&tokens[..chunks * ctx], vocab)?;
    let started = Instant::now();
    let step = if kv.keep.is_some() { options.step.min(KvKeep::SLACK) } else { options.step };
    let side = |runner, kv| Side::new(runner, (ctx, step), kv, options.logit_rows);
    let mut model = side(model, kv)?;
    let mut base = base.map(|base| side(base, base_kv.into())).transpose()?;
    let mut sums = Sums::default();
    progress.begin("evaluating", (chunks * ctx) as u64);
    for chunk in tokens.chunks_exact(ctx).take(chunks) {
        let mut chunk = chunk.to_vec();
        if let Some(bos) = bos {
            chunk[0] = bos;
        }
        evaluate_chunk(&mut model, base.as_mut(), &chunk, &mut sums, progress)?;
    }
    progress.end();
    let (ppl, ppl_stderr) = sums.perplexity();
    let tokens = sums.count;
    let divergence = if base.is_some() { sums.divergence.finish() } else { None };
    let base_ppl = divergence.as_ref().map_or(ppl, |d| d.base_ppl);
    if !(ppl.is_finite() && ppl_stderr.is_finite() && base_ppl.is_finite()) {
        return Err(RuntimeError::NotANumber { what: "a perplexity beyond all numbers".into() });
    }
    Ok(Evaluation {
        ppl,
        ppl_stderr,
        tokens,
        chunks,
        ctx,
        seconds: started.elapsed().as_secs_f64(),
        decoding: model.decoding(tokens),
        divergence,
    })
}

/// Every token must be one that the model knows; a tokenizer may have more than the model has rows.
pub(super) fn check_tokens(tokens: &[u32], vocab: u32) -> Result<()> {
    match tokens.iter().position(|&token| token >= vocab) {
        Some(at) => Err(RuntimeError::Request(format!(
            "token {} at position {at} is beyond the model's vocabulary of {vocab}",
            tokens[at]
        ))),
        None => Ok(()),
    }
}

/// One model at work.
struct Side<'a, R: Runner> {
    runner: &'a R,
    state: R::State,
    logits: Vec<f32>,
    /// Positions that `logits` has room for.
    rows: usize,
    /// Time of [`Side::decoded`].
    decoding: Duration,
}

impl<'a, R: Runner> Side<'a, R> {
    fn new(
        runner: &'a R,
        (ctx, step): (usize, usize),
        kv: KvOptions,
        logit_rows: usize,
    ) -> Result<Side<'a, R>> {
        let vocab = runner.config().vocab as usize;
        let state = runner.state_with(ctx, step, kv)?;
        let rows = (MAX_LOGITS / vocab).min(logit_rows).max(1);
        Ok(Side { runner, state, logits: zeros(rows * vocab, "logits")?, rows, decoding: Duration::ZERO })
    }

    /// How `count` tokens were decoded, where they were.
    fn decoding(&self, count: usize) -> Option<Decoding> {
        let layers_per_token = self.state.layers_per_token()?;
        Some(Decoding { layers_per_token, tokens_per_second: count as f64 / self.decoding.as_secs_f64() })
    }

    fn logits(&mut self, rows: std::ops::Range<usize>) -> Result<&[f32]> {
        let vocab = self.runner.config().vocab as usize;
        let out = &mut self.logits[..rows.len() * vocab];
        self.runner.logits(&mut self.state, rows, out)?;
        Ok(out)
    }
}

impl<R: Runner> Side<'_, R> {
    /// Decodes `tokens` one by one; the logits of each.
    fn decoded(&mut self, tokens: &[u32]) -> Result<&[f32]> {
        let Side { runner, state, logits, decoding, .. } = self;
        let vocab = runner.config().vocab as usize;
        let logits = &mut logits[..tokens.len() * vocab];
        let started = Instant::now();
        for (token, logits) in tokens.iter().zip(logits.chunks_exact_mut(vocab)) {
            runner.decode(state, *token)?;
            runner.logits(state, 0..1, logits)?;
        }
        *decoding += started.elapsed();
        Ok(logits)
    }
}

#[derive(Default)]
struct Sums {
    count: usize,
    nll: f64,
    nll_squared: f64,
    divergence: DivergenceSum,
}

impl Sums {
    fn add(&mut self, nll: f64) {
        self.count += 1;
        self.nll += nll;
        self.nll_squared += nll * nll;
    }

    /// Perplexity and its standard error, by the error of the mean log-likelihood.
    fn perplexity(&self) -> (f64, f64) {
        let n = self.count as f64;
        let mean = self.nll / n;
        let variance = (self.nll_squared / n - mean * mean).max(0.0);
        let ppl = mean.exp();
        (ppl, ppl * (variance / (n - 1.0).max(1.0)).sqrt())
    }
}

/// A figure made of NaN would look like any other, or like a perfect one.
fn check_finite(values: &[f64], scored: usize, position: usize) -> Result<()> {
    if values.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    let what = format!(
        "logits that are not finite at position {position} of a chunk, after {scored} scored positions"
    );
    Err(RuntimeError::NotANumber { what })
}

fn evaluate_chunk<R: Runner>(
    model: &mut Side<'_, R>,
    mut base: Option<&mut Side<'_, R>>,
    chunk: &[u32],
    sums: &mut Sums,
    progress: &dyn Progress,
) -> Result<()> {
    let isa = model.runner.cpu().isa();
    let vocab = model.runner.config().vocab as usize;
    let scored = chunk.len() / 2..chunk.len() - 1;
    model.state.rewind(0)?;
    if let Some(base) = &mut base {
        base.state.rewind(0)?;
    }
    let mut start = 0;
    let batch = base.as_ref().map_or(usize::MAX, |base| base.state.batch()).min(model.state.batch());
    // Only decoded tokens leave the model early: what is scored is decoded then, behind the rest as a prompt.
    let decodes = model.runner.exits_early();
    for step in chunk.chunks(batch) {
        let end = start + step.len();
        let (first, last) = (scored.start.clamp(start, end), scored.end.clamp(start, end));
        let prompt = if decodes { &chunk[start..first] } else { step };
        if !prompt.is_empty() {
            model.runner.forward(&mut model.state, prompt)?;
        }
        if let Some(base) = &mut base {
            base.runner.forward(&mut base.state, step)?;
        }
        let mut from = first;
        while from < last {
            model.runner.cancel().check()?;
            let to = (from + model.rows).min(last);
            let targets = &chunk[from + 1..=to];
            let rows = from - start..to - start;
            let logits =
                if decodes { model.decoded(&chunk[from..to])? } else { model.logits(rows.clone())? };
            if let Some(base) = &mut base {
                let base_logits = base.logits(rows)?;
                let differences: Vec<_> = logits
                    .par_chunks(vocab)
                    .zip(base_logits.par_chunks(vocab))
                    .zip(targets)
                    .map(|((row, base), &target)| compare(isa, base, row, target as usize))
                    .collect();
                for (row, at) in differences.iter().zip(from..) {
                    check_finite(&[row.nll, row.base_nll, row.kl], sums.count, at)?;
                    sums.add(row.nll);
                    sums.divergence.add(row);
                }
            } else {
                let losses: Vec<f64> = logits
                    .par_chunks(vocab)
                    .zip(targets)
                    .map(|(row, &target)| nll(isa, row, target as usize))
                    .collect();
                for (nll, at) in losses.into_iter().zip(from..) {
                    check_finite(&[nll], sums.count, at)?;
                    sums.add(nll);
                }
            }
            from = to;
        }
        progress.advance(step.len() as u64);
        start = end;
    }
    Ok(())
}
