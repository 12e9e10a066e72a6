//! Agreement with another implementation: the same tokens in, the same logits out.

use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde::Serialize;

use super::perplexity::check_tokens;
use super::row::{argmax, nll};
use crate::error::{Result, RuntimeError};
use crate::generate::PROMPT_BATCH;
use crate::mapped::map_file;
use crate::runner::{Runner, Sequence};
use qsf_cpu::KvTypes;

/// Length of the prompt whose greedy continuation is expected.
const GREEDY_PROMPT: usize = 20;
/// Longest header: that of the four tensors has some hundred bytes.
const MOST_HEADER_BYTES: u64 = 1 << 20;

/// What another implementation computed.
#[derive(Debug, Clone, PartialEq)]
pub struct GoldenExpectation {
    /// The tokens that went in.
    pub input_ids: Vec<u32>,
    /// Logits of the last positions, one row per position.
    pub last_logits: Vec<f32>,
    /// Negative log-likelihood of each token but the first.
    pub nll: Vec<f32>,
    /// Greedy continuation of the first 20 tokens.
    pub greedy: Vec<u32>,
}

/// How well a model agrees. The field names are those of `qsf-eval --json`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GoldenReport {
    /// Norm of the difference of the logits of the last positions, over the norm of the expected ones.
    pub logits_relative_error: f64,
    /// Mean absolute difference of the negative log-likelihoods.
    pub nll_mean_abs_error: f64,
    /// Whether the greedy continuation is the same, token for token.
    pub greedy_equal: bool,
    /// Input tokens.
    pub tokens: usize,
}

impl GoldenExpectation {
    /// Reads `input_ids`, `logits_last8`, `nll` and `greedy_prompt20` from a safetensors file.
    ///
    /// # Errors
    /// When it is no regular file, or one of the tensors is missing or of another type.
    pub fn read(path: &Path) -> Result<GoldenExpectation> {
        let bytes = map_file(path)?;
        // The library keeps a tree of the whole header, which has many times its size.
        let length = bytes.first_chunk().map(|length| u64::from_le_bytes(*length));
        if let Some(length) = length.filter(|length| *length > MOST_HEADER_BYTES) {
            let expected = format!("a length of at most {MOST_HEADER_BYTES}");
            return Err(RuntimeError::bad_input(path, "safetensors header", expected, length));
        }
        let file = SafeTensors::deserialize(&bytes)
            .map_err(|e| RuntimeError::bad_input(path, "safetensors header", "a sound file", e))?;
        let words = |name: &str, dtype: Dtype| -> Result<Vec<[u8; 4]>> {
            let tensor =
                file.tensor(name).map_err(|e| RuntimeError::bad_input(path, name, "this tensor", e))?;
            if tensor.dtype() != dtype {
                return Err(RuntimeError::bad_input(
                    path,
                    name,
                    format!("{dtype:?}"),
                    format!("{:?}", tensor.dtype()),
                ));
            }
            Ok(tensor.data().as_chunks::<4>().0.to_vec())
        };
        let floats = |name| -> Result<Vec<f32>> {
            Ok(words(name, Dtype::F32)?.into_iter().map(f32::from_le_bytes).collect())
        };
        let ids = |name| -> Result<Vec<u32>> {
            let ids = words(name, Dtype::I32)?.into_iter().map(i32::from_le_bytes);
            ids.map(|id| {
                u32::try_from(id)
                    .map_err(|_| RuntimeError::bad_input(path, name, "token ids of 0 or more", id))
            })
            .collect()
        };
        Ok(GoldenExpectation {
            input_ids: ids("input_ids")?,
            last_logits: floats("logits_last8")?,
            nll: floats("nll")?,
            greedy: ids("greedy_prompt20")?,
        })
    }
}

/// Runs the expected input, with keys and values stored as `kv`, and compares. `path` names the expectation in errors.
///
/// # Errors
/// When the expectation does not fit the model's vocabulary or context.
pub fn compare_golden<R: Runner>(
    runner: &R,
    kv: KvTypes,
    path: &Path,
    golden: &GoldenExpectation,
) -> Result<GoldenReport> {
    let ids = &golden.input_ids;
    let vocab = runner.config().vocab as usize;
    let last = golden.last_logits.len() / vocab;
    if !golden.last_logits.len().is_multiple_of(vocab) || last == 0 || last > ids.len() {
        return Err(RuntimeError::bad_input(
            path,
            "logits_last8",
            format!("rows of {vocab} logits, at most {}", ids.len()),
            format!("{} values", golden.last_logits.len()),
        ));
    }
    if golden.nll.len() + 1 != ids.len() || ids.len() < GREEDY_PROMPT {
        let expected =
            format!("one value for each but the first of {} tokens, which are at least 20", ids.len());
        return Err(RuntimeError::bad_input(path, "nll", expected, golden.nll.len()));
    }
    check_tokens(ids, runner.config().vocab)?;
    let isa = runner.cpu().isa();
    let context = ids.len().max(GREEDY_PROMPT + golden.greedy.len());
    let mut state = runner.state_with(context, PROMPT_BATCH, kv.into())?;
    let mut row = vec![0.0; vocab];
    let (mut difference, mut norm, mut nll_error) = (0.0, 0.0, 0.0);
    for (start, step) in (0..).step_by(state.batch()).zip(ids.chunks(state.batch())) {
        runner.forward(&mut state, step)?;
        for i in 0..step.len() {
            runner.logits(&mut state, i..i + 1, &mut row)?;
            let at = start + i;
            if let Some((&next, &expected)) = ids.get(at + 1).zip(golden.nll.get(at)) {
                nll_error += (nll(isa, &row, next as usize) - f64::from(expected)).abs();
            }
            if let Some(expected_row) = (at + last).checked_sub(ids.len()) {
                let expected = &golden.last_logits[expected_row * vocab..][..vocab];
                for (&found, &expected) in row.iter().zip(expected) {
                    difference += (f64::from(found) - f64::from(expected)).powi(2);
                    norm += f64::from(expected).powi(2);
                }
            }
        }
    }
    let logits_relative_error = (difference / norm).sqrt();
    let nll_mean_abs_error = nll_error / golden.nll.len() as f64;
    if !(logits_relative_error.is_finite() && nll_mean_abs_error.is_finite()) {
        return Err(RuntimeError::NotANumber { what: "logits that are not finite".into() });
    }
    state.rewind(0)?;
    let mut greedy = Vec::with_capacity(golden.greedy.len());
    runner.forward(&mut state, &ids[..GREEDY_PROMPT])?;
    runner.logits(&mut state, GREEDY_PROMPT - 1..GREEDY_PROMPT, &mut row)?;
    while greedy.len() < golden.greedy.len() {
        let token = argmax(&row) as u32;
        greedy.push(token);
        runner.forward(&mut state, &[token])?;
        runner.logits(&mut state, 0..1, &mut row)?;
    }
    Ok(GoldenReport {
        logits_relative_error,
        nll_mean_abs_error,
        greedy_equal: greedy == golden.greedy,
        tokens: ids.len(),
    })
}
