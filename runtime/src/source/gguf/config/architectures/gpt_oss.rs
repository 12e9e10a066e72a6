//! gpt-oss: attention sinks, windows in every other layer, and experts with biases and limited gates.

use qsf_format::TensorKind::*;
use qsf_format::{GateClip, PositionConfig, RopeScaling};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION, ENDS, EXPERTS, PRE_NORMS_LATE};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(in super::super) const GPT_OSS: Architecture = Architecture {
    name: "gpt-oss",
    model_type: "gpt_oss",
    also: &[],
    positions: ROTARY,
    window: Window::AllButEvery(2),
    experts: ExpertUse::Always,
    keys: &["expert_gating_func"],
    more: limits,
    table: &TABLE,
    biases: &[
        AttnQBias,
        AttnKBias,
        AttnVBias,
        AttnOutputBias,
        RouterBias,
        ExpertGateBias,
        ExpertUpBias,
        ExpertDownBias,
    ],
    ..LLAMA
};

static TABLE: NameTable = table(join_rules!(ENDS, PRE_NORMS_LATE, ATTENTION, SINKS, EXPERTS));

pub(super) const SINKS: &[NameRule] = &[rows("blk.{}.attn_sinks.weight", &[AttnSinks])];

/// All released models have these, and files do not say them.
fn limits(reading: &mut Reading<'_>) -> Result<()> {
    reading.config.attention_sinks = true;
    reading.config.gate_clip = Some(GateClip { alpha: 1.702, limit: 7.0 });
    if let PositionConfig::Rope { scaling: Some(RopeScaling::Yarn { truncate, .. }), .. } =
        &mut reading.config.position
    {
        *truncate = false;
    }
    Ok(())
}
