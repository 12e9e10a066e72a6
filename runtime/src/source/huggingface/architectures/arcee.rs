//! Arcee AFM: LLaMA with a plain feed-forward of squared rectifiers.

use qsf_format::TensorKind::{FfnDownBias, FfnUpBias};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, IGNORED, MODEL, OUTPUT_BIAS, PLAIN_FFN, PRE_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const ARCEE: Architecture = Architecture {
    model_types: &["arcee"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, PLAIN_FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 32000,
        hidden: 2560,
        ffn: 18432,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 4096,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: false,
    })?;
    model.gated_ffn = false;
    model.activation = reader.activation("hidden_act", "relu2")?;
    let mut biases = reader.attention_bias()?;
    biases.extend(reader.declare("mlp_bias", &[FfnUpBias, FfnDownBias])?);
    Ok(SourceConfig { declared: biases, model })
}
