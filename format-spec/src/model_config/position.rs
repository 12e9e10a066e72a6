//! How positions enter a model.

use serde::{Deserialize, Serialize};

use super::is_default;

/// How positions enter the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PositionConfig {
    /// A learned vector per position, added to the embedding.
    Learned {},
    /// Rotary embedding of queries and keys, first half of the rotated values against their second half.
    Rope {
        /// Base of the frequencies.
        theta: f32,
        /// How frequencies are changed for longer contexts.
        #[serde(default, skip_serializing_if = "is_default")]
        scaling: Option<RopeScaling>,
        /// Values of a head that are rotated, from the first on; absent: all.
        #[serde(default, skip_serializing_if = "is_default")]
        dims: Option<u32>,
        /// Base of the frequencies of layers with a sliding window, which take no scaling; absent: as all others.
        #[serde(default, skip_serializing_if = "is_default")]
        sliding_theta: Option<f32>,
        /// Layers without rotation, ascending.
        #[serde(default, skip_serializing_if = "is_default")]
        unrotated_layers: Vec<u32>,
    },
    /// Scores fall linearly with the distance, by a slope of each head (arXiv 2108.12409).
    Alibi {
        /// Factor of all slopes; absent: 1.
        #[serde(default, skip_serializing_if = "is_default")]
        slope_scale: Option<f32>,
    },
}

impl PositionConfig {
    /// Rotary embedding of whole heads, in all layers alike.
    pub const fn rope(theta: f32, scaling: Option<RopeScaling>) -> PositionConfig {
        PositionConfig::Rope { theta, scaling, dims: None, sliding_theta: None, unrotated_layers: Vec::new() }
    }

    /// Slopes as they are in the paper.
    pub const fn alibi() -> PositionConfig {
        PositionConfig::Alibi { slope_scale: None }
    }

    /// No position enters any of `layers` layers: rotary embedding of none.
    pub fn unrotated(layers: u32) -> PositionConfig {
        PositionConfig::Rope {
            theta: 10_000.0,
            scaling: None,
            dims: None,
            sliding_theta: None,
            unrotated_layers: (0..layers).collect(),
        }
    }
}

impl Default for PositionConfig {
    fn default() -> Self {
        PositionConfig::Learned {}
    }
}

/// Change of rotary frequencies for contexts longer than the model was first trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RopeScaling {
    /// Every frequency divided by `factor`.
    Linear {
        /// Divisor.
        factor: f32,
    },
    /// LLaMA 3.1: long wavelengths divided by `factor`, short ones kept, a linear ramp between.
    Llama3 {
        /// Divisor of the lowest frequencies.
        factor: f32,
        /// Wavelengths above `original_positions / low_freq_factor` are divided.
        low_freq_factor: f32,
        /// Wavelengths below `original_positions / high_freq_factor` are kept.
        high_freq_factor: f32,
        /// Context of the first training.
        original_positions: u32,
    },
    /// A larger base for contexts beyond `original_positions`, by the length of the context.
    Dynamic {
        /// How much longer contexts become.
        factor: f32,
        /// Context of the first training.
        original_positions: u32,
    },
    /// YaRN (arXiv 2309.00071): low frequencies divided by `factor`, high ones kept, a ramp between.
    Yarn {
        /// Divisor of the lowest frequencies.
        factor: f32,
        /// Context of the first training.
        original_positions: u32,
        /// Rotations over that context from which on a frequency is kept.
        beta_fast: f32,
        /// Rotations up to which it is divided.
        beta_slow: f32,
        /// What rotated queries and keys are multiplied with.
        attention_factor: f32,
        /// Whether the ends of the ramp are whole dimensions.
        truncate: bool,
    },
    /// LongRoPE (arXiv 2402.13753): a divisor per frequency, other ones for contexts beyond `original_positions`.
    LongRope {
        /// Context of the first training.
        original_positions: u32,
        /// Divisors for contexts of at most that length, one per frequency.
        short_factors: Vec<f32>,
        /// Divisors for longer contexts.
        long_factors: Vec<f32>,
        /// What rotated queries and keys are multiplied with.
        attention_factor: f32,
    },
    /// A divisor per frequency, whatever the context.
    Factors {
        /// Divisors.
        factors: Vec<f32>,
    },
}

impl RopeScaling {
    /// Positions that a model of `max_positions` is meant for with this scaling. Dynamic scaling begins beyond the length
    /// that a configuration gives, and YaRN is often added to one without changing it.
    pub fn extended(scaling: Option<&RopeScaling>, max_positions: u32) -> u32 {
        let by = |positions: u32, factor: f32| (f64::from(positions) * f64::from(factor)).round() as u32;
        match scaling {
            Some(RopeScaling::Dynamic { factor, .. }) => max_positions.max(by(max_positions, *factor)),
            Some(RopeScaling::Yarn { factor, original_positions, .. }) => {
                max_positions.max(by(*original_positions, *factor))
            }
            _ => max_positions,
        }
    }
}
