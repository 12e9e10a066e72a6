//! Which tensors an architecture has and what shape each must have: the same rules for every kind of source.

use std::collections::HashSet;
use std::path::Path;

use qsf_format::{ModelConfig, NormKind, PositionConfig, TensorId, TensorKind};

use super::TensorInfo;
use crate::error::{Result, RuntimeError};

/// Rows and columns that the configuration demands of a tensor; vectors are one row. `None` for kinds that no decoder of
/// this version reads.
pub fn expected_shape(config: &ModelConfig, kind: TensorKind) -> Option<(usize, usize)> {
    use TensorKind::*;
    let (hidden, ffn, vocab) = (config.hidden as usize, config.ffn as usize, config.vocab as usize);
    let (q, kv) = (config.q_rows(), config.kv_rows());
    let layer_norm = config.norm.kind == NormKind::LayerNorm;
    match kind {
        FfnGate | FfnGateBias if !config.gated_ffn => return None,
        Head if config.tied_head => return None,
        AttnNormBias | FfnNormBias | FinalNormBias if !layer_norm => return None,
        _ => {}
    }
    Some(match kind {
        AttnQ => (q, hidden),
        AttnK | AttnV => (kv, hidden),
        AttnOutput => (hidden, q),
        FfnGate | FfnUp => (ffn, hidden),
        FfnDown => (hidden, ffn),
        AttnNorm | FfnNorm | AttnNormBias | FfnNormBias | AttnOutputBias | FfnDownBias | FinalNorm
        | FinalNormBias => (1, hidden),
        AttnQBias => (1, q),
        AttnKBias | AttnVBias => (1, kv),
        FfnGateBias | FfnUpBias => (1, ffn),
        Head | TokenEmbedding => (vocab, hidden),
        HeadBias => (1, vocab),
        Positions => (config.max_positions as usize, hidden),
        _ => return None,
    })
}

/// The tensors without which the configured model cannot run.
pub fn required_tensors(config: &ModelConfig) -> Vec<TensorId> {
    use TensorKind::*;
    let layer_norm = config.norm.kind == NormKind::LayerNorm;
    let mut kinds = vec![AttnQ, AttnK, AttnV, AttnOutput, FfnUp, FfnDown, AttnNorm, FfnNorm];
    if config.gated_ffn {
        kinds.push(FfnGate);
    }
    let mut all = vec![TensorId::of_model(TokenEmbedding)];
    for layer in 0..config.layers {
        all.extend(kinds.iter().map(|&kind| TensorId::of_layer(layer, kind)));
    }
    all.push(TensorId::of_model(FinalNorm));
    if layer_norm {
        all.push(TensorId::of_model(FinalNormBias));
    }
    if !config.tied_head {
        all.push(TensorId::of_model(Head));
    }
    if config.position == (PositionConfig::Learned {}) {
        all.push(TensorId::of_model(Positions));
    }
    all
}

/// Checks that `found` has every tensor that the model needs, in its shape, and none that the decoder would not use.
///
/// # Errors
/// The first tensor that is missing, of another shape or unused.
pub fn check_complete(path: &Path, config: &ModelConfig, found: &[TensorInfo]) -> Result<()> {
    let ids: HashSet<TensorId> = found.iter().map(|info| info.id).collect();
    if let Some(missing) = required_tensors(config).into_iter().find(|id| !ids.contains(id)) {
        return Err(RuntimeError::bad_input(path, missing.to_string(), "this tensor", "none"));
    }
    for info in found {
        let Some(expected) = expected_shape(config, info.id.kind) else {
            return Err(RuntimeError::Unsupported {
                path: path.to_owned(),
                what: format!("tensor {}", info.name),
                supported: "a model of this configuration would not use it, and compute something else"
                    .into(),
            });
        };
        if expected != (info.rows, info.cols) {
            return Err(RuntimeError::bad_input(
                path,
                format!("tensor {}", info.name),
                format!("{} x {}", expected.0, expected.1),
                format!("{} x {}", info.rows, info.cols),
            ));
        }
    }
    Ok(())
}
