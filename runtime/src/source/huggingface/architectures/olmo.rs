//! OLMo 1: layer norms without gains and biases, and limited queries, keys and values.

use qsf_format::NormConfig;
use qsf_format::NormKind::LayerNorm;
use qsf_format::TensorKind::{Head, TokenEmbedding};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, OUTPUT_BIAS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const OLMO: Architecture = Architecture {
    model_types: &["olmo"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(OLMO_MODEL, ATTENTION, QKV_BIASES, OUTPUT_BIAS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

const OLMO_MODEL: &[NameRule] =
    &[rows("embed_tokens.weight", &[TokenEmbedding]), rows("lm_head.weight", &[Head])];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 50304,
        hidden: 4096,
        ffn: 11008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    })?;
    // Fixed in the code of the model.
    model.norm = NormConfig { without_gain: true, ..NormConfig::new(LayerNorm, 1e-5) };
    model.qkv_clip = reader.fields.f32("clip_qkv")?;
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
