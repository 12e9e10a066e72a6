//! Runs a text through a model at full precision and collects statistics.

use qsf_runtime::generate::PROMPT_BATCH;
use qsf_runtime::progress::Progress;
use qsf_runtime::{Decoder, Result, RuntimeError};

use crate::stats::{ActivationStats, Collector};

/// Runs `tokens` through `decoder` in chunks of at most 512 tokens, each from an empty context. The rest of an incomplete
/// last chunk is used too.
///
/// # Errors
/// When there are no tokens, one is beyond the vocabulary, the model computes something
/// that is not finite, or the decoder is stopped.
pub fn collect(decoder: &Decoder, tokens: &[u32], progress: &dyn Progress) -> Result<ActivationStats> {
    if tokens.is_empty() {
        return Err(RuntimeError::Request("the calibration text is empty".into()));
    }
    let context = PROMPT_BATCH.min(decoder.model().config.max_positions as usize);
    let mut state = decoder.state(context, context)?;
    let mut stats = ActivationStats::default();
    progress.begin("calibrating", tokens.len() as u64);
    for chunk in tokens.chunks(context) {
        state.rewind(0);
        let mut collector = Collector { stats: &mut stats, tokens: chunk.len() };
        decoder.forward_observed(&mut state, chunk, &mut collector)?;
        stats.count_tokens(chunk.len());
        progress.advance(chunk.len() as u64);
    }
    progress.end();
    match stats.first_not_finite() {
        None => Ok(stats),
        Some(what) => Err(RuntimeError::NotANumber { what }),
    }
}
