//! MPT, and StarCoder 1 with SantaCoder: layer norms and plain feed-forwards, queries, keys and values in one tensor.

use qsf_format::{Activation, NormKind};

use super::super::architecture::{Architecture, GPT2, Positions};
use super::super::reading::Reading;
use super::mixtures::limited;
use crate::error::{Result, RuntimeError};

/// GPT-2 with one head of keys and values.
pub(in super::super) const STARCODER: Architecture =
    Architecture { name: "starcoder", model_type: "gpt_bigcode", ..GPT2 };

/// ALiBi, norms without biases.
pub(in super::super) const MPT: Architecture = Architecture {
    name: "mpt",
    model_type: "mpt",
    norm: NormKind::LayerNorm,
    activation: Activation::GeluErf,
    positions: Positions::Alibi,
    keys: &["attention.clamp_kqv", "attention.max_alibi_bias"],
    more: slopes,
    biases: &[],
    ..GPT2
};

/// The steepest slope of all released models.
const STEEPEST: u32 = 8;

fn slopes(reading: &mut Reading<'_>) -> Result<()> {
    let steepest = reading.fraction("attention.max_alibi_bias")?.unwrap_or(0.0);
    if steepest != STEEPEST as f32 {
        let what = format!("mpt.attention.max_alibi_bias = {steepest}");
        return Err(RuntimeError::unsupported(reading.file.path(), what, format!("only {STEEPEST} is")));
    }
    limited(reading)
}
