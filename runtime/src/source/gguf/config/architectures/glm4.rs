//! ChatGLM 3 and GLM-4 of 2024, GLM-4 of 2025, and GLM 4.5 to 4.7.

use qsf_format::TensorKind::{AttnK, AttnKBias, AttnQ, AttnQBias, AttnV, AttnVBias};
use qsf_format::{NormPlacement, PositionConfig, QkNorm};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{
    ATTENTION, ATTENTION_PAIRS, ENDS, EXPERTS, FFN, JOINED_FFN, POST_NORMS, PRE_NORMS, PRE_NORMS_LATE,
    QK_NORMS, SHARED_EXPERTS,
};
use crate::source::gguf::names::table;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules};

pub(in super::super) const GLM4: Architecture = Architecture {
    name: "glm4",
    model_type: "glm4",
    also: &[],
    placement: NormPlacement::PreAndPost,
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    table: &JOINED,
    ..LLAMA
};

/// GLM-4 of 2024, and ChatGLM 3 before it.
pub(in super::super) const CHATGLM: Architecture = Architecture {
    name: "chatglm",
    model_type: "glm",
    placement: NormPlacement::Pre,
    more: width_of_heads,
    table: &CHATGLM_TABLE,
    ..GLM4
};

pub(in super::super) const GLM4_MOE: Architecture = Architecture {
    name: "glm4moe",
    model_type: "glm4_moe",
    also: &["solar_open"],
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Maybe("glm4_moe"),
    router: None,
    keys: &[
        "expert_gating_func",
        "expert_group_count",
        "expert_group_used_count",
        "expert_shared_count",
        "expert_weights_norm",
        "expert_weights_scale",
        "leading_dense_block_count",
        "nextn_predict_layers",
    ],
    more: norms_of_heads,
    table: &MIXTURE,
    ..LLAMA
};

static JOINED: NameTable = table(join_rules!(ENDS, PRE_NORMS, POST_NORMS, ATTENTION_PAIRS, JOINED_FFN));

static CHATGLM_TABLE: NameTable =
    table(join_rules!(ENDS, PRE_NORMS, ATTENTION_PAIRS, JOINED_QKV, JOINED_FFN));

const JOINED_QKV: &[NameRule] = &[
    formed("blk.{}.attn_qkv.weight", &[AttnQ, AttnK, AttnV], Form::NeighbouringPairs),
    formed("blk.{}.attn_qkv.bias", &[AttnQBias, AttnKBias, AttnVBias], Form::NeighbouringPairs),
];

static MIXTURE: NameTable =
    table(join_rules!(ENDS, PRE_NORMS_LATE, ATTENTION, QK_NORMS, FFN, EXPERTS, SHARED_EXPERTS));

/// No key has it; the output of attention reads all heads.
fn width_of_heads(reading: &mut Reading<'_>) -> Result<()> {
    let all = reading.shape("blk.0.attn_output.weight").and_then(|shape| shape.first().copied());
    let width =
        all.and_then(|all| u32::try_from(all).ok()).and_then(|all| all.checked_div(reading.config.heads));
    if let Some(width) = width.filter(|&width| width != reading.config.head_dim) {
        reading.config.head_dim = width;
        let rotated = reading.number("rope.dimension_count")?.filter(|&rotated| rotated != width);
        if let PositionConfig::Rope { dims, .. } = &mut reading.config.position {
            *dims = rotated;
        }
    }
    Ok(())
}

/// Some sizes have them.
fn norms_of_heads(reading: &mut Reading<'_>) -> Result<()> {
    let has_norms = !reading.layers_with("attn_q_norm.weight").is_empty();
    reading.config.qk_norm = has_norms.then_some(QkNorm::Head);
    Ok(())
}
