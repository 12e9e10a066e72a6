//! ERNIE 4.5: LLaMA with rotation of neighbouring pairs.

use qsf_format::TensorKind::*;

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    GATED_FFN, GATED_FFN_BIASES, IGNORED, MODEL, NEIGHBOURS_ATTENTION, NEIGHBOURS_QKV_BIASES, OUTPUT_BIAS,
    PRE_NORMS,
};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const ERNIE4_5: Architecture = Architecture {
    model_types: &["ernie4_5"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            NEIGHBOURS_ATTENTION,
            NEIGHBOURS_QKV_BIASES,
            OUTPUT_BIAS,
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
        vocab: 103424,
        hidden: 1024,
        ffn: 3072,
        layers: 18,
        heads: 16,
        kv_heads: Some(2),
        head_dim: Some(128),
        max_positions: 131072,
        norm_epsilon: 1e-5,
        theta: 500_000.0,
        tied_head: true,
    })?;
    model.activation = reader.activation("hidden_act", "silu")?;
    let biases = [AttnQBias, AttnKBias, AttnVBias, AttnOutputBias, FfnGateBias, FfnUpBias, FfnDownBias];
    Ok(SourceConfig { declared: reader.declare("use_bias", &biases)?, model })
}
