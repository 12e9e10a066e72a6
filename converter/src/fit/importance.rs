//! How much each layer matters, where no types are chosen: a small part of the text says it, which takes a tenth of the time of the
//! rest at most.

use qsf_calibration::{ProbeText, importance_tokens, layer_importance, spread};
use qsf_runtime::source::WeightSource;

use crate::error::Result;
use crate::options::ConvertOptions;
use crate::resume::Records;
use crate::session::Session;

/// Most chunks for measurements of the whole model, here and where types are chosen.
pub(crate) const PROBE_CHUNKS: usize = 4;
/// Tokens of each. The time of all these measurements grows with the square of a model's depth, and four times as many tokens gave no
/// better choice (docs/measurements/quality.md).
pub(crate) const PROBE_CHUNK: usize = 128;
/// The journal's record.
const RECORD: &str = "importance";

/// Whether the output has a place for it.
pub(crate) fn says_importance(options: &ConvertOptions) -> bool {
    options.gguf.is_none() && options.hf.is_none() && options.calibration.is_some()
}

/// Tokens that are run, of a text of so many.
pub(crate) fn probed_tokens(source: &dyn WeightSource, tokens: usize) -> usize {
    importance_tokens(source.config(), &weights_of_layers(source), tokens, PROBE_CHUNKS * PROBE_CHUNK)
}

/// Weights of each layer.
pub(crate) fn weights_of_layers(source: &dyn WeightSource) -> Vec<u64> {
    let mut layers = vec![0; source.config().layers as usize];
    for info in source.tensors() {
        if let Some(weights) = info.id.layer.and_then(|layer| layers.get_mut(layer as usize)) {
            *weights += info.rows as u64 * info.cols as u64;
        }
    }
    layers
}

/// Divergence of the predictions of `source` without each layer; nothing where predictions are not finite. What `records` has is not measured again.
///
/// # Errors
/// When a tensor is damaged, memory runs out, or the user interrupts.
pub(crate) fn importance_of(
    source: &dyn WeightSource,
    records: &mut dyn Records,
    session: &Session<'_>,
) -> Result<Vec<f32>> {
    let layers = source.config().layers as usize;
    if let Some(bytes) = records.get(RECORD)?
        && bytes.len() == size_of::<f32>() * layers
    {
        return Ok(bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect());
    }
    let may = probed_tokens(source, session.tokens.len());
    let ctx = may.min(PROBE_CHUNK);
    let chunks = may / ctx.max(1);
    let probed = spread(session.tokens, ctx, chunks);
    let text = ProbeText { tokens: &probed, ctx, chunks };
    let found = layer_importance(source, session.cpu, text, session.cancel)?;
    let found: Vec<f32> = found.into_iter().map(|value| value as f32).collect();
    // Predictions are no business of a calibration by inputs: what overflows in the head alone can be converted all the same.
    if !found.iter().all(|value| value.is_finite()) {
        session
            .progress
            .warn("the file does not say how much each layer matters: predictions of the model overflow");
        return Ok(Vec::new());
    }
    let bytes: Vec<u8> = found.iter().flat_map(|value| value.to_le_bytes()).collect();
    records.put_new(RECORD, &bytes)?;
    Ok(found)
}
