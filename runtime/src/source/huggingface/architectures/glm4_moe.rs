//! GLM 4.5 to 4.7: a sigmoid router with a bias of the choice, shared experts, first layers without.

use qsf_format::QkNorm;
use qsf_format::TensorKind::{AttnKBias, AttnQBias, AttnVBias};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, CHOICE_BIAS, GATED_FFN, IGNORED, JOINED_EXPERTS, MODEL, PRE_NORMS, QK_NORMS, QKV_BIASES,
    ROUTED_EXPERTS, SHARED_EXPERTS,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const GLM4_MOE: Architecture = Architecture {
    model_types: &["glm4_moe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION,
            QKV_BIASES,
            QK_NORMS,
            GATED_FFN,
            ROUTED_EXPERTS,
            JOINED_EXPERTS,
            SHARED_EXPERTS,
            CHOICE_BIAS
        ),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like_part(
        &Defaults {
            vocab: 151552,
            hidden: 4096,
            ffn: 10944,
            layers: 46,
            heads: 96,
            kv_heads: Some(8),
            head_dim: None,
            max_positions: 131072,
            norm_epsilon: 1e-5,
            theta: 10_000.0,
            tied_head: false,
        },
        Some((0.5, "partial_rotary_factor")),
    )?;
    model.qk_norm = reader.fields.bool("use_qk_norm")?.unwrap_or(false).then_some(QkNorm::Head);
    model.experts = reader.deepseek_experts(model.layers, [128, 8, 1408, 1, 1])?;
    Ok(SourceConfig {
        declared: reader.declare("attention_bias", &[AttnQBias, AttnKBias, AttnVBias])?,
        model,
    })
}
