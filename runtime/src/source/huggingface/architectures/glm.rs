//! GLM 4 of 2024: half of each head is rotated, in neighbouring pairs.

use qsf_format::TensorKind::{AttnKBias, AttnQBias, AttnVBias};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{IGNORED, JOINED_FFN, MODEL, NEIGHBOURS_ATTENTION, NEIGHBOURS_QKV_BIASES, PRE_NORMS};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const GLM: Architecture = Architecture {
    model_types: &["glm"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, NEIGHBOURS_ATTENTION, NEIGHBOURS_QKV_BIASES, JOINED_FFN),
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
            ffn: 13696,
            layers: 40,
            heads: 32,
            kv_heads: Some(2),
            head_dim: Some(128),
            max_positions: 131072,
            norm_epsilon: 1.562_5e-7,
            theta: 10_000.0,
            tied_head: false,
        },
        Some((0.5, "partial_rotary_factor")),
    )?;
    model.activation = reader.activation("hidden_act", "silu")?;
    Ok(SourceConfig {
        declared: reader.declare("attention_bias", &[AttnQBias, AttnKBias, AttnVBias])?,
        model,
    })
}
