//! Nemotron 3 and 4, Minitron: layer norms with gains of 1 + w, a feed-forward of squared rectifiers.

use qsf_format::TensorKind::{AttnNormBias, FfnDownBias, FfnNormBias, FfnUpBias, FinalNormBias};
use qsf_format::{NormConfig, NormKind};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, IGNORED, MODEL, NORM_BIASES, OUTPUT_BIAS, PLAIN_FFN, PRE_NORMS, QKV_BIASES};
use super::reader::{Defaults, declared};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const NEMOTRON: Architecture = Architecture {
    model_types: &["nemotron"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, NORM_BIASES, ATTENTION, QKV_BIASES, OUTPUT_BIAS, PLAIN_FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like_part(
        &Defaults {
            vocab: 256000,
            hidden: 6144,
            ffn: 24576,
            layers: 32,
            heads: 48,
            kv_heads: None,
            head_dim: None,
            max_positions: 4096,
            norm_epsilon: 1e-5,
            theta: 10_000.0,
            tied_head: false,
        },
        Some((0.5, "partial_rotary_factor")),
    )?;
    let epsilon = reader.fields.f32("norm_eps")?.unwrap_or(1e-5);
    model.norm = NormConfig { gain_plus_one: true, ..NormConfig::new(NormKind::LayerNorm, epsilon) };
    model.gated_ffn = false;
    model.activation = reader.activation("hidden_act", "relu2")?;
    let mut biases = reader.attention_bias()?;
    biases.extend(reader.declare("mlp_bias", &[FfnUpBias, FfnDownBias])?);
    biases.extend(declared(&[AttnNormBias, FfnNormBias, FinalNormBias], true));
    Ok(SourceConfig { declared: biases, model })
}
