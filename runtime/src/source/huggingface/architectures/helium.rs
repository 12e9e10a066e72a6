//! Helium 1: LLaMA with rotation of neighbouring pairs.

use qsf_format::TensorKind::{AttnKBias, AttnQBias, AttnVBias, FfnDownBias, FfnGateBias, FfnUpBias};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    GATED_FFN, GATED_FFN_BIASES, IGNORED, MODEL, NEIGHBOURS_ATTENTION, NEIGHBOURS_QKV_BIASES, PRE_NORMS,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const HELIUM: Architecture = Architecture {
    model_types: &["helium"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            NEIGHBOURS_ATTENTION,
            NEIGHBOURS_QKV_BIASES,
            GATED_FFN,
            GATED_FFN_BIASES
        ),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 48000,
        hidden: 2560,
        ffn: 7040,
        layers: 24,
        heads: 20,
        kv_heads: Some(20),
        head_dim: Some(128),
        max_positions: 4096,
        norm_epsilon: 1e-8,
        theta: 100_000.0,
        tied_head: false,
    })?;
    model.activation = reader.activation("hidden_act", "silu")?;
    let mut biases = reader.declare("attention_bias", &[AttnQBias, AttnKBias, AttnVBias])?;
    biases.extend(reader.declare("mlp_bias", &[FfnGateBias, FfnUpBias, FfnDownBias])?);
    Ok(SourceConfig { declared: biases, model })
}
