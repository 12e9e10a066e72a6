//! Granite 3: LLaMA with factors on embeddings, scores, what layers add, and logits.

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, GATED_FFN, GATED_FFN_BIASES, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const GRANITE: Architecture = Architecture {
    model_types: &["granite"],
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
        vocab: 32000,
        hidden: 4096,
        ffn: 11008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 2048,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    reader.granite_factors(&mut model)?;
    Ok(SourceConfig { declared: reader.declared_biases()?, model })
}
