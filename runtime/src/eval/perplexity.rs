//! Runs a model over the chunks of a token sequence, alone or side by side with another model.

use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::row::{compare, nll};
use super::sums::{ChunkSums, Decoded, EvaluatedChunks, Evaluation};
use crate::decoder::{KvKeep, KvOptions};
use crate::error::{Result, RuntimeError};
use crate::generate::PROMPT_BATCH;
use crate::part::WorkPart;
use crate::progress::Progress;
use crate::runner::{Runner, Sequence};
use qsf_cpu::{KvTypes, zeros};

/// Most positions whose logits are held at once.
const LOGIT_ROWS: usize = 64;

/// Most logits held at once, 256 MiB.
const MAX_LOGITS: usize = 1 << 26;

/// Tokens of the shortest chunk: one is scored.
pub(super) const MIN_CTX: usize = 4;

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

impl EvalOptions {
    /// How many tokens of a text can be needed.
    pub fn most_tokens(&self) -> usize {
        self.chunks.map_or(usize::MAX, |chunks| chunks.saturating_mul(self.ctx))
    }

    /// How many chunks of `tokens` are evaluated.
    ///
    /// # Errors
    /// When a chunk is too short, or the text has not one.
    pub fn chunks_of(&self, tokens: &[u32]) -> Result<usize> {
        let ctx = self.ctx;
        if ctx < MIN_CTX {
            return Err(RuntimeError::Request(format!(
                "a chunk of {ctx} tokens is too short: --ctx must be at least {MIN_CTX}"
            )));
        }
        let available = tokens.len() / ctx;
        match self.chunks.unwrap_or(available).min(available) {
            0 => Err(RuntimeError::Request(format!(
                "the text has {} tokens, less than one chunk of {ctx}: pass a longer text or a smaller --ctx",
                tokens.len()
            ))),
            chunks => Ok(chunks),
        }
    }

    /// Tokens of a step. Which they are influences figures where not all positions are kept, and only there.
    pub fn steps(&self) -> usize {
        if self.kv.keep.is_some() { self.step.min(KvKeep::SLACK) } else { self.step }
    }
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
    evaluate_part(model, base, tokens, options, WorkPart::ALL, progress)?.evaluation()
}

/// The sums of a part of the chunks, in a row. Those of all parts together give what [`evaluate`] gives, to the bit.
///
/// # Errors
/// As [`evaluate`], and when there are fewer chunks than parts.
pub fn evaluate_part<R: Runner>(
    model: &R,
    base: Option<&R>,
    tokens: &[u32],
    options: EvalOptions,
    part: WorkPart,
    progress: &dyn Progress,
) -> Result<EvaluatedChunks> {
    let EvalOptions { ctx, bos, kv, base_kv, .. } = options;
    let total = options.chunks_of(tokens)?;
    let range = part.range(total, "chunks")?;
    let vocab = model.config().vocab;
    if let Some(base) = base.filter(|b| b.config().vocab != vocab) {
        return Err(RuntimeError::Request(format!(
            "the models have vocabularies of {vocab} and {}: their distributions cannot be compared",
            base.config().vocab
        )));
    }
    check_tokens(&tokens[..total * ctx], vocab)?;
    let started = Instant::now();
    let step = options.steps();
    let side = |runner, kv| Side::new(runner, ctx, step, kv, options.logit_rows);
    let mut model = side(model, kv)?;
    let mut base = base.map(|base| side(base, base_kv.into())).transpose()?;
    let mut chunks = Vec::with_capacity(range.len());
    progress.begin("evaluating", (range.len() * ctx) as u64);
    for (number, chunk) in tokens.chunks_exact(ctx).enumerate().take(range.end).skip(range.start) {
        let mut chunk = chunk.to_vec();
        if let Some(bos) = bos {
            chunk[0] = bos;
        }
        chunks.push(evaluate_chunk(&mut model, base.as_mut(), number, &chunk, progress)?);
    }
    progress.end();
    Ok(EvaluatedChunks {
        ctx,
        total,
        first: range.start,
        chunks,
        decoded: model.decoded(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Every token must be one that the model knows; a tokenizer may have more than the model has rows.
///
/// # Errors
/// With the first that is not.
pub fn check_tokens(tokens: &[u32], vocab: u32) -> Result<()> {
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
    /// Time of [`Side::decode`].
    decoding: Duration,
}

impl<'a, R: Runner> Side<'a, R> {
    fn new(runner: &'a R, ctx: usize, step: usize, kv: KvOptions, logit_rows: usize) -> Result<Side<'a, R>> {
        let vocab = runner.config().vocab as usize;
        let state = runner.state_with(ctx, step, kv)?;
        let rows = (MAX_LOGITS / vocab).min(logit_rows).max(1);
        Ok(Side { runner, state, logits: zeros(rows * vocab, "logits")?, rows, decoding: Duration::ZERO })
    }

    /// How tokens were decoded one by one, where they were.
    fn decoded(&self) -> Option<Decoded> {
        let count = self.state.decoded_layers();
        (count.tokens > 0).then_some(Decoded { layers: count.layers, seconds: self.decoding.as_secs_f64() })
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
    fn decode(&mut self, tokens: &[u32]) -> Result<&[f32]> {
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

/// A figure made of NaN would look like any other, or like a perfect one.
fn check_finite(values: &[f64], chunk: usize, position: usize) -> Result<()> {
    if values.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    let what = format!("logits that are not finite at position {position} of chunk {chunk}, counted from 0");
    Err(RuntimeError::NotANumber { what })
}

/// Evaluates the chunk of this number.
fn evaluate_chunk<R: Runner>(
    model: &mut Side<'_, R>,
    mut base: Option<&mut Side<'_, R>>,
    number: usize,
    chunk: &[u32],
    progress: &dyn Progress,
) -> Result<ChunkSums> {
    let mut sums = ChunkSums::new(base.is_some());
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
                if decodes { model.decode(&chunk[from..to])? } else { model.logits(rows.clone())? };
            if let Some(base) = &mut base {
                let base_logits = base.logits(rows)?;
                let differences: Vec<_> = logits
                    .par_chunks(vocab)
                    .zip(base_logits.par_chunks(vocab))
                    .zip(targets)
                    .map(|((row, base), &target)| compare(isa, base, row, target as usize))
                    .collect();
                for (row, at) in differences.iter().zip(from..) {
                    check_finite(&[row.nll, row.base_nll, row.kl], number, at)?;
                    sums.add_compared(row);
                }
            } else {
                let losses: Vec<f64> = logits
                    .par_chunks(vocab)
                    .zip(targets)
                    .map(|(row, &target)| nll(isa, row, target as usize))
                    .collect();
                for (nll, at) in losses.into_iter().zip(from..) {
                    check_finite(&[nll], number, at)?;
                    sums.add(nll);
                }
            }
            from = to;
        }
        progress.advance(step.len() as u64);
        start = end;
    }
    Ok(sums)
}
