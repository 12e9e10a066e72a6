//! Runs a model over the chunks of a token sequence, alone or side by side with another model.

use std::time::Instant;

use super::beside::{Beside, Looked, Reference};
use super::options::EvalOptions;
use super::side::Side;
use super::sums::{ChunkSums, EvaluatedChunks, Evaluation};
use crate::error::{Result, RuntimeError};
use crate::part::WorkPart;
use crate::progress::Progress;
use crate::runner::{Runner, Sequence};

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
    let reference = base.map_or(Reference::Nothing, Reference::Model);
    evaluate_part(model, reference, tokens, options, WorkPart::ALL, progress)?.evaluation()
}

/// The sums of a part of the chunks, in a row. Those of all parts together give what [`evaluate`] gives, to the bit.
///
/// # Errors
/// As [`evaluate`], and when there are fewer chunks than parts.
pub fn evaluate_part<R: Runner>(
    model: &R,
    reference: Reference<'_, R>,
    tokens: &[u32],
    options: EvalOptions,
    part: WorkPart,
    progress: &dyn Progress,
) -> Result<EvaluatedChunks> {
    let EvalOptions { ctx, bos, kv, .. } = options;
    let total = options.chunks_of(tokens)?;
    let range = part.range(total, "chunks")?;
    let vocab = model.config().vocab;
    check_tokens(&tokens[..total * ctx], vocab)?;
    let started = Instant::now();
    let mut model = Side::new(model, ctx, options.steps(), kv, options.logit_rows)?;
    let mut beside = Beside::new(reference, vocab, &options)?;
    let mut chunks = Vec::with_capacity(range.len());
    progress.begin("evaluating", (range.len() * ctx) as u64);
    for (number, text) in tokens.chunks_exact(ctx).enumerate().take(range.end).skip(range.start) {
        beside.begin_chunk(number, text)?;
        let mut chunk = text.to_vec();
        if let Some(bos) = bos {
            chunk[0] = bos;
        }
        chunks.push(evaluate_chunk(&mut model, &mut beside, number, &chunk, progress)?);
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
    beside: &mut Beside<'_, R>,
    number: usize,
    chunk: &[u32],
    progress: &dyn Progress,
) -> Result<ChunkSums> {
    let mut sums = ChunkSums::new(beside.compares());
    let isa = model.runner.cpu().isa();
    let scored = chunk.len() / 2..chunk.len() - 1;
    model.state.rewind(0)?;
    let mut start = 0;
    let batch = beside.batch().min(model.state.batch());
    // Only decoded tokens leave the model early: what is scored is decoded then, behind the rest as a prompt.
    let decodes = model.runner.exits_early();
    for step in chunk.chunks(batch) {
        let end = start + step.len();
        let (first, last) = (scored.start.clamp(start, end), scored.end.clamp(start, end));
        let prompt = if decodes { &chunk[start..first] } else { step };
        if !prompt.is_empty() {
            model.runner.forward(&mut model.state, prompt)?;
        }
        beside.forward(step)?;
        let mut from = first;
        while from < last {
            model.runner.cancel().check()?;
            let to = (from + model.rows).min(last);
            let targets = &chunk[from + 1..=to];
            let rows = from - start..to - start;
            let logits =
                if decodes { model.decode(&chunk[from..to])? } else { model.logits(rows.clone())? };
            match beside.look(isa, logits, rows, targets)? {
                Looked::Compared(differences) => {
                    for (row, at) in differences.iter().zip(from..) {
                        check_finite(&[row.nll, row.base_nll, row.kl], number, at)?;
                        sums.add_compared(row);
                    }
                }
                Looked::Alone(losses) => {
                    for (nll, at) in losses.into_iter().zip(from..) {
                        check_finite(&[nll], number, at)?;
                        sums.add(nll);
                    }
                }
            }
            from = to;
        }
        progress.advance(step.len() as u64);
        start = end;
    }
    Ok(sums)
}
