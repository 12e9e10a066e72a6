//! Seed-OSS: LLaMA with biases of queries, keys and values.

use qsf_format::TensorKind::*;

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, GATED_FFN, GATED_FFN_BIASES, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const SEED_OSS: Architecture = Architecture {
    model_types: &["seed_oss"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, GATED_FFN, GATED_FFN_BIASES),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 155136,
        hidden: 4096,
        ffn: 27648,
        layers: 64,
        heads: 80,
        kv_heads: Some(8),
        head_dim: Some(128),
        max_positions: 524288,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.activation = reader.activation("hidden_act", "silu")?;
    let mut biases = reader.declare("attention_bias", &[AttnQBias, AttnKBias, AttnVBias])?;
    biases.extend(reader.declare("attention_out_bias", &[AttnOutputBias])?);
    biases.extend(reader.declare("mlp_bias", &[FfnGateBias, FfnUpBias, FfnDownBias])?);
    Ok(SourceConfig { declared: biases, model })
}
