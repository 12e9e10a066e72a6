//! Sums over chunks, and the figures that follow from them. There is one way only: sums of each chunk, added up in the order of
//! chunks. So it does not matter for any bit of a figure whether one run made all of them, or several made parts.

use serde::{Deserialize, Serialize};

use super::divergence::{Divergence, DivergenceSums};
use super::row::RowDifference;
use crate::decoder::LayerCount;
use crate::error::{Result, RuntimeError};

/// Perplexity of a model, and its distance from another. The field names are those of `qsf-eval --json`.
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
    /// Wall time; of an evaluation in parts, that of all parts together.
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
    pub decode_tokens_per_second: f64,
}

/// What was summed over chunks that are in a row: all of an evaluation, or a part of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluatedChunks {
    pub(super) ctx: usize,
    /// Chunks of the whole evaluation.
    pub(super) total: usize,
    /// Number of the first chunk of these, counted from 0.
    pub(super) first: usize,
    pub(super) chunks: Vec<ChunkSums>,
    /// Where tokens were decoded one by one.
    pub(super) decoded: Option<Decoded>,
    pub(super) seconds: f64,
}

/// How scored tokens were decoded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decoded {
    /// Layers of all of them together.
    pub layers: u64,
    pub seconds: f64,
}

/// Sums over the scored positions of one chunk, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChunkSums {
    pub count: usize,
    pub nll: f64,
    pub nll_squared: f64,
    /// Where there is a base.
    pub divergence: Option<DivergenceSums>,
}

impl ChunkSums {
    pub fn new(with_base: bool) -> ChunkSums {
        ChunkSums {
            count: 0,
            nll: 0.0,
            nll_squared: 0.0,
            divergence: with_base.then(DivergenceSums::default),
        }
    }

    pub fn add(&mut self, nll: f64) {
        self.count += 1;
        self.nll += nll;
        self.nll_squared += nll * nll;
    }

    /// Adds a position that was compared with the base.
    pub fn add_compared(&mut self, row: &RowDifference) {
        self.add(row.nll);
        if let Some(divergence) = &mut self.divergence {
            divergence.add(row);
        }
    }
}

impl EvaluatedChunks {
    /// The chunks, counted from 0.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.chunks.len()
    }

    /// Chunks of the whole evaluation.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Scored positions.
    pub fn tokens(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.count).sum()
    }

    /// Wall time.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// The figures, if these are all chunks.
    ///
    /// # Errors
    /// When a figure is beyond all numbers.
    pub fn evaluation(&self) -> Result<Evaluation> {
        evaluation_of(&[self])
    }
}

/// The figures that follow from all parts of an evaluation, which are in order and have every chunk once.
///
/// # Errors
/// When a figure is beyond all numbers.
pub(super) fn evaluation_of(parts: &[&EvaluatedChunks]) -> Result<Evaluation> {
    let chunks = || parts.iter().flat_map(|part| &part.chunks);
    let (mut tokens, mut nll, mut nll_squared) = (0, 0.0, 0.0);
    for chunk in chunks() {
        tokens += chunk.count;
        nll += chunk.nll;
        nll_squared += chunk.nll_squared;
    }
    let (ppl, ppl_stderr) = perplexity(tokens, nll, nll_squared);
    let divergence = Divergence::of(chunks().filter_map(|chunk| chunk.divergence.as_ref()));
    let base_ppl = divergence.as_ref().map_or(ppl, |d| d.base_ppl);
    if !(ppl.is_finite() && ppl_stderr.is_finite() && base_ppl.is_finite()) {
        return Err(RuntimeError::NotANumber { what: "a perplexity beyond all numbers".into() });
    }
    let mut decoded = parts.iter().filter_map(|part| part.decoded).peekable();
    let decoding = decoded.peek().is_some().then(|| {
        let (layers, seconds) =
            decoded.fold((0, 0.0), |sum: (u64, f64), d| (sum.0.saturating_add(d.layers), sum.1 + d.seconds));
        let layers = LayerCount { tokens: tokens as u64, layers };
        Decoding {
            layers_per_token: layers.mean().unwrap_or_default(),
            decode_tokens_per_second: tokens as f64 / seconds,
        }
    });
    Ok(Evaluation {
        ppl,
        ppl_stderr,
        tokens,
        chunks: chunks().count(),
        ctx: parts.first().map_or(0, |part| part.ctx),
        seconds: parts.iter().map(|part| part.seconds).sum(),
        decoding,
        divergence,
    })
}

/// Perplexity and its standard error, by the error of the mean log-likelihood.
fn perplexity(count: usize, nll: f64, nll_squared: f64) -> (f64, f64) {
    let n = count as f64;
    let mean = nll / n;
    let variance = (nll_squared / n - mean * mean).max(0.0);
    let ppl = mean.exp();
    (ppl, ppl * (variance / (n - 1.0).max(1.0)).sqrt())
}
