//! Granite 3 and 4, with experts and without, with layers of Mamba-2 and without: LLaMA with factors.

use qsf_format::PositionConfig;

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use super::state_spaces::MAMBA;
use crate::error::Result;
use crate::source::gguf::name_groups::{
    ATTENTION_PAIRS, ATTENTION_WHOLE_PAIRS, ENDS, EXPERTS, FFN, PRE_NORMS, SHARED_EXPERTS,
};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameTable, join_rules};

pub(in super::super) const GRANITE: Architecture = Architecture {
    name: "granite",
    model_type: "granite",
    also: &[],
    window: Window::Unknown,
    experts: ExpertUse::Never,
    keys: &[
        "attention.scale",
        "embedding_scale",
        "residual_scale",
        "logit_scale",
        "expert_shared_feed_forward_length",
        "rope.scaling.finetuned",
    ],
    more: |reading| granite(reading),
    table: &TABLE,
    ..LLAMA
};

pub(in super::super) const GRANITE_MOE: Architecture = Architecture {
    name: "granitemoe",
    model_type: "granitemoe",
    also: &["granitemoeshared"],
    experts: ExpertUse::Always,
    more: with_experts,
    ..GRANITE
};

/// Granite 4 with layers of Mamba-2, and Bamba.
pub(in super::super) const GRANITE_HYBRID: Architecture = Architecture {
    name: "granitehybrid",
    model_type: "granitemoehybrid",
    also: &["bamba"],
    positions: ROTARY,
    experts: ExpertUse::Maybe("granitemoehybrid"),
    keys: &[
        "attention.scale",
        "embedding_scale",
        "residual_scale",
        "logit_scale",
        "expert_shared_feed_forward_length",
        "rope.scaling.finetuned",
        "ssm.conv_kernel",
        "ssm.group_count",
        "ssm.inner_size",
        "ssm.state_size",
        "ssm.time_step_rank",
    ],
    per_layer: &["attention.head_count_kv"],
    more: hybrid,
    table: &HYBRID,
    ..GRANITE
};

static HYBRID: NameTable =
    table(join_rules!(ENDS, PRE_NORMS, ATTENTION_WHOLE_PAIRS, MAMBA, FFN, EXPERTS, SHARED_EXPERTS));

static TABLE: NameTable = table(join_rules!(ENDS, PRE_NORMS, ATTENTION_PAIRS, FFN, EXPERTS, SHARED_EXPERTS));

fn with_experts(reading: &mut Reading<'_>) -> Result<()> {
    if reading.config.experts.as_ref().is_some_and(|experts| experts.shared.is_some()) {
        reading.config.architecture = "granitemoeshared".into();
    }
    granite(reading)
}

fn hybrid(reading: &mut Reading<'_>) -> Result<()> {
    let layers = reading.without_attention()?;
    reading.mamba2(layers)?;
    granite(reading)
}

/// Where files say that rotation was not "finetuned", there is none.
fn granite(reading: &mut Reading<'_>) -> Result<()> {
    let rotates = reading.flag("rope.scaling.finetuned")?.unwrap_or(true);
    let all = (0..reading.config.layers).collect();
    if let (false, PositionConfig::Rope { unrotated_layers, .. }) = (rotates, &mut reading.config.position) {
        *unrotated_layers = all;
    }
    reading.granite_factors()
}
