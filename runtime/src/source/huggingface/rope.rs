//! The rotary part of a configuration, in its old and its new spelling.

use qsf_format::{PositionConfig, RopeScaling};

use super::config::unsupported;
use super::fields::Fields;
use crate::error::Result;
use qsf_format::printable::quote;

/// What transformers takes for a LLaMA configuration without a base.
const DEFAULT_THETA: f32 = 10_000.0;

/// Rotary positions of a `config.json`: `rope_parameters` (transformers 5), or `rope_theta` beside `rope_scaling`.
pub(super) fn rope_positions(fields: Fields<'_>) -> Result<PositionConfig> {
    let new = fields.object("rope_parameters", "rope_parameters.")?;
    let old = fields.object("rope_scaling", "rope_scaling.")?;
    // Every place where a version of transformers looks for the base; two that differ are two models.
    let mut theta = None;
    for place in [Some(fields), new, old].into_iter().flatten() {
        let here = place.f32("rope_theta")?;
        if let (Some(one), Some(other)) = (theta, here.filter(|&here| Some(here) != theta)) {
            return Err(place.wrong(
                "rope_theta",
                format!("{one} as elsewhere in the file"),
                other.to_string(),
            ));
        }
        theta = theta.or(here);
    }
    let scaling = match (new, old) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => scaling_of(one)?,
        (Some(new), Some(old)) => {
            // Readers of different versions would run two different models; nobody can tell which one is meant.
            let (new, old) = (scaling_of(new)?, scaling_of(old)?);
            if new != old {
                return Err(fields.wrong("rope_scaling", "what rope_parameters says", "something else"));
            }
            new
        }
    };
    refuse_partial(fields)?;
    for one in new.into_iter().chain(old) {
        refuse_partial(one)?;
    }
    Ok(PositionConfig::rope(theta.unwrap_or(DEFAULT_THETA), scaling))
}

fn scaling_of(rope: Fields<'_>) -> Result<Option<RopeScaling>> {
    if rope.map.values().any(serde_json::Value::is_object) {
        return Err(unsupported(rope.path, "rotary parameters per layer type", "one set for all layers is"));
    }
    // `type` is the name of transformers 4.42 and earlier.
    let kind = match rope.str("rope_type")? {
        Some(kind) => Some(kind),
        None => rope.str("type")?,
    };
    match kind {
        None if rope.get("factor").is_some() => Err(rope.wrong("rope_type", "a string", "no such field")),
        None | Some("default") => Ok(None),
        Some("linear") => Ok(Some(RopeScaling::Linear { factor: rope.need_f32("factor")? })),
        Some("llama3") => Ok(Some(RopeScaling::Llama3 {
            factor: rope.need_f32("factor")?,
            low_freq_factor: rope.need_f32("low_freq_factor")?,
            high_freq_factor: rope.need_f32("high_freq_factor")?,
            original_positions: rope.need_u32("original_max_position_embeddings")?,
        })),
        Some(other) => Err(unsupported(
            rope.path,
            format!("rotary scaling {}", quote(other)),
            "supported: default, linear, llama3",
        )),
    }
}

fn refuse_partial(fields: Fields<'_>) -> Result<()> {
    match fields.f32("partial_rotary_factor")? {
        None | Some(1.0) => Ok(()),
        Some(part) => Err(unsupported(
            fields.path,
            format!("partial_rotary_factor {part}"),
            "only whole heads are rotated",
        )),
    }
}
