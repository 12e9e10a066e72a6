//! What an evaluation takes, before it is made: for whoever has to find a machine for it.

use super::options::EvalOptions;
use crate::error::Result;
use crate::memory;
use crate::source::{WeightSource, file_bytes};

/// Matrices of activations as wide as the hidden state, and as the feed-forward network, that a step has.
const HIDDEN_BUFFERS: u64 = 8;
const FFN_BUFFERS: u64 = 3;
/// This part more is kept free: what a process has around all that differs between machines.
const MARGIN: u64 = 2;
/// What a process takes before it opens a model, where the system does not tell.
const UNKNOWN_USE: u64 = 64 << 20;

/// What an evaluation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Peak of resident memory, of a process such as this.
    pub bytes: u64,
    /// Chunks; no more machines can share them.
    pub chunks: usize,
}

/// What the evaluation of a model takes on a text of `tokens`: from shapes and sizes of files, in no time. A part of it takes
/// as much memory.
///
/// # Errors
/// When the text has not one whole chunk, or files cannot be looked at.
pub fn demand(
    model: &dyn WeightSource,
    base: Option<&dyn WeightSource>,
    tokens: &[u32],
    options: EvalOptions,
) -> Result<Demand> {
    let chunks = options.chunks_of(tokens)?;
    let (ctx, step) = (options.ctx as u64, options.steps().min(options.ctx) as u64);
    let mut bytes = 0;
    for source in [Some(model), base].into_iter().flatten() {
        let config = source.config();
        let (hidden, ffn) = (u64::from(config.hidden), u64::from(config.ffn));
        let kv = 2 * ctx * u64::from(config.layers) * config.kv_rows() as u64 * size_of::<f32>() as u64;
        let buffers = 4 * step * (HIDDEN_BUFFERS * hidden + FFN_BUFFERS * ffn);
        let logits = 4 * options.logit_rows as u64 * u64::from(config.vocab);
        bytes += file_bytes(source)? + kv + buffers + logits;
    }
    let process = memory::resident().unwrap_or(UNKNOWN_USE);
    Ok(Demand { bytes: bytes + bytes / MARGIN + process, chunks })
}
