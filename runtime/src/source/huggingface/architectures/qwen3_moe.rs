//! Qwen 3 with a mixture of experts in all layers or in some.

use qsf_format::QkNorm;
use qsf_format::TensorKind::{KNorm, QNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::mixtures::ExpertDefaults;
use super::names::{
    ATTENTION, GATED_FFN, IGNORED, JOINED_EXPERTS, MODEL, OUTPUT_BIAS, PRE_NORMS, QK_NORMS, QKV_BIASES,
    ROUTED_EXPERTS,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const QWEN3_MOE: Architecture = Architecture {
    model_types: &["qwen3_moe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION,
            QKV_BIASES,
            OUTPUT_BIAS,
            QK_NORMS,
            GATED_FFN,
            ROUTED_EXPERTS,
            JOINED_EXPERTS
        ),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["moe_intermediate_size"], ..Marks::tensors(&[QNorm, KNorm]) },
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 151_936,
        hidden: 2048,
        ffn: 6144,
        layers: 24,
        heads: 32,
        kv_heads: Some(4),
        head_dim: None,
        max_positions: 32_768,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.qk_norm = Some(QkNorm::Head);
    // Unlike in Qwen 3 without experts, all layers have it.
    model.sliding_window = reader.window(&model, reader.window_in_use(Some(4096))?, |_| true);
    let defaults = ExpertDefaults { count: 128, used: 8, ffn: 768, normalize: false };
    model.experts = reader.qwen_experts(model.layers, defaults)?;
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
