//! Rotary positions, in every spelling: `rope_theta` and `rope_scaling` of transformers 3 and 4, `rope_parameters` of
//! version 5, flat or per type of layer, and the names that GPT-NeoX has for its own.
//!
//! What transformers derives when it loads a model (`modeling_rope_utils.py`) is derived here, once: the factor that
//! YaRN and LongRoPE multiply queries and keys with, and the context of the first training.

use qsf_format::printable::quote;
use qsf_format::{PositionConfig, RopeScaling};

use crate::error::{Result, RuntimeError};
use crate::model_dir::Fields;

/// What an architecture takes for what the configuration does not say.
#[derive(Clone, Copy)]
pub(super) struct RopeDefaults {
    /// Base of the frequencies.
    pub theta: f32,
    /// Its name outside of `rope_parameters`.
    pub theta_name: &'static str,
    /// Part of a head that is rotated, and its name outside of `rope_parameters`; `None`: always the whole, whatever the
    /// fields say.
    pub part: Option<(f64, &'static str)>,
    /// Width of a head.
    pub head_dim: u32,
    /// `max_position_embeddings`.
    pub max_positions: u32,
    /// Whether "yarn" with two lists of factors means LongRoPE, as in the first files of Phi-3.
    pub yarn_is_longrope: bool,
}

impl RopeDefaults {
    /// Whole heads, and the names that most architectures have.
    pub fn new(theta: f32, head_dim: u32, max_positions: u32) -> RopeDefaults {
        RopeDefaults {
            theta,
            theta_name: "rope_theta",
            part: None,
            head_dim,
            max_positions,
            yarn_is_longrope: false,
        }
    }
}

/// Rotary positions and how many of them there are.
pub(super) struct Rope {
    /// How positions enter.
    pub position: PositionConfig,
    /// `max_position_embeddings`, or what a scaling makes of it that is meant to go beyond.
    pub max_positions: u32,
}

/// One set of rotary parameters.
#[derive(Debug, Clone, PartialEq)]
struct Parameters {
    theta: f32,
    scaling: Option<RopeScaling>,
    dims: Option<u32>,
}

/// The rotary part of a configuration.
pub(super) fn positions(fields: Fields<'_>, defaults: &RopeDefaults) -> Result<Rope> {
    let new = fields.object("rope_parameters", "rope_parameters.")?;
    let old = fields.object("rope_scaling", "rope_scaling.")?;
    let by_type = new.filter(|new| new.map.values().any(serde_json::Value::is_object));
    let (full, sliding) = match by_type {
        Some(new) => {
            if let Some(other) = new.map.keys().find(|key| !LAYER_TYPES.contains(&key.as_str())) {
                let what = format!("rotary parameters of {}", quote(other));
                return Err(RuntimeError::unsupported(
                    fields.path,
                    what,
                    format!("supported: {}", LAYER_TYPES.join(", ")),
                ));
            }
            let full = new.object(LAYER_TYPES[0], "rope_parameters.full_attention.")?;
            let sliding = new.object(LAYER_TYPES[1], "rope_parameters.sliding_attention.")?;
            let sliding = sliding.map(|sliding| one_set(fields, [Some(sliding), None], defaults));
            (one_set(fields, [full, old], defaults)?, sliding.transpose()?)
        }
        None => (one_set(fields, [new, old], defaults)?, None),
    };
    let sliding_theta = match sliding.filter(|sliding| *sliding != full) {
        None => None,
        Some(Parameters { theta, scaling: None, dims }) if dims == full.dims => Some(theta),
        Some(_) => {
            let what = "a scaling or a rotated part of sliding layers that differs from that of the others";
            return Err(RuntimeError::unsupported(fields.path, what, "only another rope_theta is"));
        }
    };
    let max_positions = RopeScaling::extended(full.scaling.as_ref(), defaults.max_positions);
    let Parameters { theta, scaling, dims } = full;
    let position = PositionConfig::Rope { theta, scaling, dims, sliding_theta, unrotated_layers: Vec::new() };
    Ok(Rope { position, max_positions })
}

/// The types of layers that rotary parameters are given for.
const LAYER_TYPES: [&str; 2] = ["full_attention", "sliding_attention"];

/// What `fields` and the objects `sets` in it say together. Readers of different versions would run two different
/// models where they contradict each other, and nobody can tell which one is meant.
fn one_set(fields: Fields<'_>, sets: [Option<Fields<'_>>; 2], defaults: &RopeDefaults) -> Result<Parameters> {
    let mut theta = Once { name: "rope_theta", found: None };
    let mut part = Once { name: "partial_rotary_factor", found: None };
    for set in sets.into_iter().flatten() {
        theta.add(set, "rope_theta")?;
        part.add(set, "partial_rotary_factor")?;
    }
    // Parameters of a type of layers go before what stands outside, which is that of the others.
    if theta.found.is_none() || !sets_are_nested(sets) {
        theta.add(fields, "rope_theta")?;
        if defaults.theta_name != "rope_theta" {
            theta.add(fields, defaults.theta_name)?;
        }
    }
    if part.found.is_none() || !sets_are_nested(sets) {
        part.add(fields, defaults.part.map_or("partial_rotary_factor", |(_, name)| name))?;
    }
    let part = match (part.found, defaults.part) {
        (Some(part), None) if part != 1.0 => {
            // Versions of transformers differ in whether they heed it where the architecture has no such thing.
            let what = format!("partial_rotary_factor {part} of this architecture");
            return Err(RuntimeError::unsupported(fields.path, what, "its heads are rotated as a whole"));
        }
        (Some(part), _) => part,
        (None, defaults) => defaults.map_or(1.0, |(part, _)| part),
    };
    let rotated = (f64::from(defaults.head_dim) * part) as u32;
    let scaling = match sets {
        [None, None] => None,
        [Some(one), None] | [None, Some(one)] => scaling_of(one, fields, defaults)?,
        [Some(new), Some(old)] => {
            let (new, old) = (scaling_of(new, fields, defaults)?, scaling_of(old, fields, defaults)?);
            if new != old {
                return Err(fields.wrong("rope_scaling", "what rope_parameters says", "something else"));
            }
            new
        }
    };
    Ok(Parameters {
        theta: theta.found.map_or(defaults.theta, |theta| theta as f32),
        scaling,
        dims: (rotated != defaults.head_dim).then_some(rotated),
    })
}

fn sets_are_nested(sets: [Option<Fields<'_>>; 2]) -> bool {
    sets[0].is_some_and(|set| set.within.ends_with("_attention."))
}

/// A number that several places of a file may give, if they agree.
struct Once {
    name: &'static str,
    found: Option<f64>,
}

impl Once {
    fn add(&mut self, fields: Fields<'_>, name: &str) -> Result<()> {
        let here = fields.f64(name)?;
        match (self.found, here) {
            (Some(one), Some(other)) if one != other => {
                let expected = format!("{one}, as {} is elsewhere in the file", self.name);
                Err(fields.wrong(name, expected, other))
            }
            _ => {
                self.found = self.found.or(here);
                Ok(())
            }
        }
    }
}

fn scaling_of(rope: Fields<'_>, outer: Fields<'_>, defaults: &RopeDefaults) -> Result<Option<RopeScaling>> {
    // `type` is the name of transformers 4.42 and earlier.
    let kind = match rope.str("rope_type")? {
        Some(kind) => Some(kind),
        None => rope.str("type")?,
    };
    // Phi-3 has it beside the object, where it goes before what is inside.
    let original = match outer.u32("original_max_position_embeddings")? {
        Some(original) => Some(original),
        None => rope.u32("original_max_position_embeddings")?,
    };
    let original_positions = original.unwrap_or(defaults.max_positions);
    let is_longrope = defaults.yarn_is_longrope && rope.get("short_factor").is_some();
    match kind {
        None if rope.get("factor").is_some() => Err(rope.wrong("rope_type", "a string", "no such field")),
        None | Some("default") => Ok(None),
        Some("linear") => Ok(Some(RopeScaling::Linear { factor: rope.need_f32("factor")? })),
        // The context that frequencies are stretched from is `max_position_embeddings` itself.
        Some("dynamic") => Ok(Some(RopeScaling::Dynamic {
            factor: rope.need_f32("factor")?,
            original_positions: defaults.max_positions,
        })),
        Some("llama3") => Ok(Some(RopeScaling::Llama3 {
            factor: rope.need_f32("factor")?,
            low_freq_factor: rope.need_f32("low_freq_factor")?,
            high_freq_factor: rope.need_f32("high_freq_factor")?,
            original_positions,
        })),
        Some("yarn") if !is_longrope => yarn(rope, original_positions, defaults).map(Some),
        // "su" is the name of the first files of Phi-3.
        Some("longrope" | "su" | "yarn") => longrope(rope, original_positions, defaults).map(Some),
        Some(other) => Err(RuntimeError::unsupported(
            rope.path,
            format!("rotary scaling {}", quote(other)),
            "supported: default, linear, dynamic, llama3, yarn, longrope",
        )),
    }
}

/// arXiv 2309.00071; the factor of queries and keys is that of its section 3.4.
fn yarn(rope: Fields<'_>, original_positions: u32, defaults: &RopeDefaults) -> Result<RopeScaling> {
    let factor = factor_or_ratio(rope, original_positions, defaults)?;

    let mscale = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
    let attention_factor = match rope.f64("attention_factor")? {
        Some(given) => given,
        None => {
            let given = |name| rope.f64(name).map(|scale| scale.filter(|&scale| scale != 0.0));
            match (given("mscale")?, given("mscale_all_dim")?) {
                (Some(scale), Some(all)) => mscale(scale) / mscale(all),
                _ => mscale(1.0),
            }
        }
    };
    // 0 means the default too.
    let beta = |name, default| rope.f32(name).map(|beta| beta.filter(|&beta| beta != 0.0).unwrap_or(default));
    Ok(RopeScaling::Yarn {
        factor: factor as f32,
        original_positions,
        beta_fast: beta("beta_fast", 32.0)?,
        beta_slow: beta("beta_slow", 1.0)?,
        attention_factor: attention_factor as f32,
        truncate: rope.bool("truncate")?.unwrap_or(true),
    })
}

/// arXiv 2402.13753.
fn longrope(rope: Fields<'_>, original_positions: u32, defaults: &RopeDefaults) -> Result<RopeScaling> {
    let of_lengths = [rope.f64("short_mscale")?, rope.f64("long_mscale")?];
    if of_lengths[0] != of_lengths[1] {
        let what = "short_mscale and long_mscale that differ";
        return Err(RuntimeError::unsupported(rope.path, what, "only one factor for all lengths is"));
    }
    let factor = factor_or_ratio(rope, original_positions, defaults)?;
    let attention_factor = match of_lengths[0].or(rope.f64("attention_factor")?) {
        Some(given) => given,
        None if factor <= 1.0 => 1.0,
        None => (1.0 + factor.ln() / f64::from(original_positions).ln()).sqrt(),
    };
    Ok(RopeScaling::LongRope {
        original_positions,
        short_factors: rope.need_f32s("short_factor")?,
        long_factors: rope.need_f32s("long_factor")?,
        attention_factor: attention_factor as f32,
    })
}

/// `factor`, or how much longer the context has become.
fn factor_or_ratio(rope: Fields<'_>, original_positions: u32, defaults: &RopeDefaults) -> Result<f64> {
    let ratio = f64::from(defaults.max_positions) / f64::from(original_positions);
    Ok(rope.f64("factor")?.unwrap_or(ratio))
}
