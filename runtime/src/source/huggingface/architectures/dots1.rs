//! dots.llm1: the mixture of DeepSeek V3 behind plain attention.

use qsf_format::QkNorm;

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, CHOICE_BIAS, GATED_FFN, IGNORED, JOINED_EXPERTS, MODEL, OUTPUT_BIAS, PRE_NORMS, QK_NORMS,
    QKV_BIASES, ROUTED_EXPERTS, SHARED_EXPERTS,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const DOTS1: Architecture = Architecture {
    model_types: &["dots1"],
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
    let mut model = reader.llama_like(&Defaults {
        vocab: 152064,
        hidden: 4608,
        ffn: 10944,
        layers: 62,
        heads: 32,
        kv_heads: Some(32),
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.qk_norm = Some(QkNorm::Head);
    let types = reader.sliding_layers(model.layers)?;
    let first = reader.fields.u32("max_window_layers")?.unwrap_or(62);
    model.sliding_window = reader.window(&model, reader.window_size(Some(4096))?, |layer| match &types {
        Some(types) => types[layer as usize],
        None => layer >= first,
    });
    model.experts = reader.deepseek_experts(model.layers, [128, 6, 1408, 0, 0])?;
    if let Some(experts) = &mut model.experts {
        experts.normalize_weights = reader.fields.bool("norm_topk_prob")?.unwrap_or(false);
    }
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
