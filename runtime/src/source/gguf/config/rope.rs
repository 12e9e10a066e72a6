//! How positions enter: rotary keys, and the factors that are stored as tensors.

use qsf_format::{PositionConfig, RopeScaling};

use super::super::names::{FREQUENCY_FACTORS, LONG_FACTORS, SHORT_FACTORS};
use super::architecture::Positions;
use super::keys::Keys;
use crate::error::{Result, RuntimeError};
use crate::gguf::GgufFile;
use qsf_format::printable::quote;

/// What else of the model decides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub head_dim: u32,
    pub layers: u32,
    pub context: u32,
    pub has_window: bool,
}

/// How positions enter a model of this kind.
pub(super) fn read(
    file: &GgufFile,
    keys: Keys<'_>,
    positions: Positions,
    shape: Shape,
) -> Result<PositionConfig> {
    let (default_sliding, unrotated_every, scaled_windows, whole_heads) = match positions {
        Positions::Learned => return Ok(PositionConfig::Learned {}),
        Positions::Alibi => return Ok(PositionConfig::alibi()),
        Positions::Unrotated => return Ok(PositionConfig::unrotated(shape.layers)),
        Positions::Rotary { sliding_theta, unrotated_every, scaled_windows, whole_heads } => {
            (sliding_theta, unrotated_every, scaled_windows, whole_heads)
        }
    };
    let dims = keys.u32("rope.dimension_count")?.unwrap_or(shape.head_dim);
    if dims > shape.head_dim || (whole_heads && dims != shape.head_dim) {
        return Err(keys.wrong(
            "rope.dimension_count",
            format!("the width of a head, {}", shape.head_dim),
            dims,
        ));
    }
    let theta = keys.f32("rope.freq_base")?.unwrap_or(10_000.0);
    let scaling = scaling(file, keys, dims, shape.context)?;
    // A base of their own means: no scaling for layers with a window.
    let sliding_theta = match keys.f32("rope.freq_base_swa")?.or(default_sliding) {
        _ if !shape.has_window => None,
        None if scaling.is_some() && !scaled_windows => Some(theta),
        Some(sliding) if scaling.is_some() && scaled_windows && sliding != theta => {
            let what = format!("{} beside a scaling of all layers", keys.full("rope.freq_base_swa"));
            return Err(RuntimeError::unsupported(file.path(), what, "one of both is"));
        }
        sliding => sliding.filter(|&sliding| sliding != theta || (scaling.is_some() && !scaled_windows)),
    };
    let unrotated_layers = match unrotated_every {
        Some(every) => (0..shape.layers).filter(|layer| (layer + 1) % every == 0).collect(),
        None => Vec::new(),
    };
    let dims = (dims != shape.head_dim).then_some(dims);
    Ok(PositionConfig::Rope { theta, scaling, dims, sliding_theta, unrotated_layers })
}

fn scaling(file: &GgufFile, keys: Keys<'_>, dims: u32, context: u32) -> Result<Option<RopeScaling>> {
    let kind = keys.metadata.str(&keys.full("rope.scaling.type"))?.unwrap_or("linear");
    let factor = match keys.f32("rope.scaling.factor")? {
        None => keys.f32("rope.scale_linear")?,
        factor => factor,
    };
    // 0 is written for "none".
    let factor = factor.filter(|&factor| factor != 1.0 && factor != 0.0);
    let attention_factor = keys.f32("rope.scaling.attn_factor")?.unwrap_or(1.0);
    let original_positions = keys.u32("rope.scaling.original_context_length")?.unwrap_or(context);
    let frequency_factors = factors(file, FREQUENCY_FACTORS, dims)?;
    let long = factors(file, LONG_FACTORS, dims)?;
    let short = factors(file, SHORT_FACTORS, dims)?;
    let by_tensors = match (frequency_factors, short, long) {
        (None, None, None) => None,
        (Some(factors), None, None) if attention_factor == 1.0 => Some(RopeScaling::Factors { factors }),
        (None, Some(short_factors), Some(long_factors)) => {
            Some(RopeScaling::LongRope { original_positions, short_factors, long_factors, attention_factor })
        }
        _ => {
            let what = "this combination of factors of rotary frequencies";
            let supported = "either rope_freqs, or rope_factors_short and rope_factors_long are";
            return Err(RuntimeError::unsupported(file.path(), what, supported));
        }
    };
    let by_keys = match (kind, factor) {
        ("none", _) | ("linear" | "yarn", None) => None,
        ("longrope", None) if matches!(by_tensors, Some(RopeScaling::LongRope { .. })) => None,
        ("linear", Some(factor)) => Some(RopeScaling::Linear { factor }),
        ("yarn", Some(factor)) => {
            // The factor that the paper recommends (section 3.4), where the file gives none of its own.
            let own = keys.f32("rope.scaling.yarn_attn_factor")?;
            let recommended = (0.1 * libm::log(f64::from(factor)) + 1.0) as f32;
            Some(RopeScaling::Yarn {
                factor,
                original_positions,
                beta_fast: keys.f32("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: keys.f32("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                attention_factor: own.unwrap_or(recommended * attention_factor),
                truncate: true,
            })
        }
        (other, factor) => {
            let factor = factor.map_or_else(String::new, |factor| format!(" by {factor}"));
            let what = format!("rotary scaling {}{factor}", quote(other));
            return Err(RuntimeError::unsupported(
                file.path(),
                what,
                "supported: none, linear, yarn, longrope with factors",
            ));
        }
    };
    match (by_keys, by_tensors) {
        (None, None) if attention_factor != 1.0 => {
            Err(keys.wrong("rope.scaling.attn_factor", "a scaling that it belongs to", attention_factor))
        }
        (Some(_), Some(_)) => {
            let what = "rotary scaling by keys and by tensors at once";
            Err(RuntimeError::unsupported(file.path(), what, "one of both is"))
        }
        (by_keys, by_tensors) => Ok(by_keys.or(by_tensors)),
    }
}

/// The factors that a tensor holds, where there is one.
fn factors(file: &GgufFile, name: &str, dims: u32) -> Result<Option<Vec<f32>>> {
    let Some(tensor) = file.tensors.iter().find(|tensor| tensor.name == name) else { return Ok(None) };
    let count = dims as usize / 2;
    // Type 0 is F32, which every writer uses for these.
    if tensor.type_id != 0 || tensor.shape != [count] {
        let found = format!("type {}, shape {:?}", tensor.type_id, tensor.shape);
        let path = &file.shards[tensor.shard].path;
        let expected = format!("{count} values of type F32");
        return Err(RuntimeError::bad_input(path, format!("tensor {}", quote(name)), expected, found));
    }
    let (values, _) = file.bytes(tensor).as_chunks();
    Ok(Some(values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()))
}
