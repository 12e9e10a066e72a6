//! Mixtures of experts that differ little: Qwen 1.5 and 2, OLMoE, MiniMax M2, dots.llm1.

use qsf_format::QkNorm;
use qsf_format::TensorKind::{AttnKBias, AttnQBias, AttnVBias};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION, ENDS, EXPERTS, FFN, PRE_NORMS, QK_NORMS, SHARED_EXPERTS};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameTable, join_rules};

/// A shared expert with a router of its own.
pub(in super::super) const QWEN2_MOE: Architecture = Architecture {
    name: "qwen2moe",
    model_type: "qwen2_moe",
    also: &[],
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Always,
    normalize_weights: false,
    keys: &["expert_shared_count", "expert_shared_feed_forward_length"],
    table: &TABLE,
    biases: &[AttnQBias, AttnKBias, AttnVBias],
    ..LLAMA
};

/// Norms of all queries and keys of a token together.
pub(in super::super) const OLMOE: Architecture = Architecture {
    name: "olmoe",
    model_type: "olmoe",
    qk_norm: Some(QkNorm::Projection),
    keys: &["attention.clamp_kqv"],
    more: limited,
    biases: &[],
    ..QWEN2_MOE
};

/// The same with a logistic function, and a bias of the choice.
pub(in super::super) const MINIMAX_M2: Architecture = Architecture {
    name: "minimax-m2",
    model_type: "minimax_m2",
    normalize_weights: true,
    router: None,
    keys: &["expert_gating_func", "nextn_predict_layers"],
    more: |_| Ok(()),
    ..OLMOE
};

/// Groups of experts, as in DeepSeek V3.
pub(in super::super) const DOTS1: Architecture = Architecture {
    name: "dots1",
    model_type: "dots1",
    qk_norm: Some(QkNorm::Head),
    normalize_weights: false,
    keys: &[
        "expert_gating_func",
        "expert_group_count",
        "expert_group_used_count",
        "expert_shared_count",
        "expert_weights_norm",
        "expert_weights_scale",
        "leading_dense_block_count",
    ],
    ..MINIMAX_M2
};

static TABLE: NameTable =
    table(join_rules!(ENDS, PRE_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS, SHARED_EXPERTS));

/// Queries, keys and values with a limit.
pub(super) fn limited(reading: &mut Reading<'_>) -> Result<()> {
    reading.config.qkv_clip = reading.factor("attention.clamp_kqv")?;
    Ok(())
}
