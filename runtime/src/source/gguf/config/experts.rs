//! The mixture of experts of a file.

use qsf_format::{ExpertGroups, Experts, RouterScore, SharedExperts};

use super::architecture::{Architecture, ExpertUse};
use super::keys::{Keys, need};
use super::layer_tensors::{layers_with, shape_of};
use crate::error::{Result, RuntimeError};
use crate::gguf::GgufFile;

/// The mixture of experts of a file.
///
/// # Errors
/// When there is one where the architecture has none, or the other way round, or keys make no sense.
pub(super) fn experts_of(
    file: &GgufFile,
    keys: Keys<'_>,
    architecture: &Architecture,
    layers: u32,
) -> Result<Option<Experts>> {
    let count = keys.u32("expert_count")?.unwrap_or(0);
    if count == 0 {
        return match architecture.experts {
            ExpertUse::Always => Err(keys.wrong("expert_count", "experts", "none")),
            _ => Ok(None),
        };
    }
    if architecture.experts == ExpertUse::Never {
        let what = format!("{} = {count}", keys.full("expert_count"));
        let supported = "models of this architecture have no experts";
        return Err(RuntimeError::unsupported(keys.metadata.path(), what, supported));
    }
    let width = match keys.same_for_all("expert_feed_forward_length", layers)? {
        Some(width) => width,
        None => need(keys, "feed_forward_length", keys.same_for_all("feed_forward_length", layers)?)?,
    };
    let choice_bias = !layers_with(file, "exp_probs_b.bias", layers).is_empty();
    let score = score(keys, architecture, choice_bias)?;
    let routed = layers_with(file, "ffn_gate_inp.weight", layers);
    let plain = layers_with(file, "ffn_down.weight", layers);
    Ok(Some(Experts {
        count,
        used: need(keys, "expert_used_count", keys.same_for_all("expert_used_count", layers)?)?,
        ffn: width,
        normalize_weights: keys.bool("expert_weights_norm")?.unwrap_or(architecture.normalize_weights),
        dense_layers: plain.into_iter().filter(|layer| !routed.contains(layer)).collect(),
        score,
        choice_bias,
        margin: None,
        groups: groups(keys, score)?,
        weight_scale: keys.f32("expert_weights_scale")?.filter(|&scale| scale != 1.0 && scale != 0.0),
        weigh_inputs: false,
        shared: shared(file, layers),
        beside_ffn: false,
    }))
}

/// 1 is softmax, 2 the logistic function; 3 a softmax over the chosen alone, which is one over all made to add up to 1.
fn score(keys: Keys<'_>, architecture: &Architecture, choice_bias: bool) -> Result<RouterScore> {
    const KEY: &str = "expert_gating_func";
    match (keys.u32(KEY)?, architecture.router) {
        (Some(1 | 3), _) => Ok(RouterScore::Softmax),
        (Some(2), _) => Ok(RouterScore::Sigmoid),
        (None | Some(0), Some(score)) => Ok(score),
        (None | Some(0), None) if choice_bias => Ok(RouterScore::Sigmoid),
        (None | Some(0), None) => Ok(RouterScore::Softmax),
        (Some(other), _) => {
            let what = format!("{} = {other}", keys.full(KEY));
            Err(RuntimeError::unsupported(keys.metadata.path(), what, "supported: 1 (softmax), 2 (sigmoid)"))
        }
    }
}

/// A group's score is the sum of its two best, and with a softmax its best: as in DeepSeek V3 and V2.
fn groups(keys: Keys<'_>, score: RouterScore) -> Result<Option<ExpertGroups>> {
    let count = keys.u32("expert_group_count")?.unwrap_or(1);
    let best = if score == RouterScore::Sigmoid { 2 } else { 1 };
    if count <= 1 {
        return Ok(None);
    }
    Ok(Some(ExpertGroups { count, used: keys.need_u32("expert_group_used_count")?, best }))
}

/// Files say the width in several ways; the tensors know.
fn shared(file: &GgufFile, layers: u32) -> Option<SharedExperts> {
    let layer = layers_with(file, "ffn_up_shexp.weight", layers).first().copied()?;
    let ffn = *shape_of(file, &format!("blk.{layer}.ffn_up_shexp.weight"))?.get(1)?;
    let gated = !layers_with(file, "ffn_gate_inp_shexp.weight", layers).is_empty();
    Some(SharedExperts { ffn: u32::try_from(ffn).ok()?, gated })
}
