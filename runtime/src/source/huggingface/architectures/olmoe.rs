//! OLMoE: experts in every layer, and norms of all queries and keys of a token together.

use qsf_format::{Experts, QkNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, IGNORED, JOINED_EXPERTS, MODEL, OUTPUT_BIAS, PRE_NORMS, QK_NORMS, QKV_BIASES, ROUTED_EXPERTS,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const OLMOE: Architecture = Architecture {
    model_types: &["olmoe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION,
            QKV_BIASES,
            OUTPUT_BIAS,
            QK_NORMS,
            ROUTED_EXPERTS,
            JOINED_EXPERTS
        ),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 50304,
        hidden: 2048,
        ffn: 2048,
        layers: 16,
        heads: 16,
        kv_heads: None,
        head_dim: None,
        max_positions: 4096,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.qk_norm = Some(QkNorm::Projection);
    model.qkv_clip = reader.fields.f32("clip_qkv")?;
    model.experts = Some(Experts {
        count: reader.dimension(&["num_experts", "num_local_experts"], 64)?,
        used: reader.dimension(&["num_experts_per_tok"], 8)?,
        ffn: model.ffn,
        normalize_weights: reader.fields.bool("norm_topk_prob")?.unwrap_or(false),
        ..Experts::default()
    });
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
