//! Solar Open: the mixture of DeepSeek V3 in every layer, behind plain attention.

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, CHOICE_BIAS, IGNORED, JOINED_EXPERTS, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES,
    ROUTED_EXPERTS, SHARED_EXPERTS,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const SOLAR_OPEN: Architecture = Architecture {
    model_types: &["solar_open"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION,
            QKV_BIASES,
            OUTPUT_BIAS,
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
        vocab: 196608,
        hidden: 4096,
        ffn: 1,
        layers: 48,
        heads: 64,
        kv_heads: Some(8),
        head_dim: Some(128),
        max_positions: 131072,
        norm_epsilon: 1e-5,
        theta: 1_000_000.0,
        tied_head: false,
    })?;
    model.experts = reader.deepseek_experts(model.layers, [128, 8, 1280, 1, 0])?;
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
