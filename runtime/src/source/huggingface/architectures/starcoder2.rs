//! StarCoder 2: layer norms and a plain feed-forward, all with biases, and a window in every layer.

use qsf_format::TensorKind::*;
use qsf_format::{NormConfig, NormKind};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, IGNORED, MODEL, NORM_BIASES, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES};
use super::reader::{Defaults, declared};
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const STARCODER2: Architecture = Architecture {
    model_types: &["starcoder2"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, NORM_BIASES, ATTENTION, QKV_BIASES, OUTPUT_BIAS, FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

const FFN: &[NameRule] = &[
    rows("layers.{}.mlp.c_fc.weight", &[FfnUp]),
    rows("layers.{}.mlp.c_fc.bias", &[FfnUpBias]),
    rows("layers.{}.mlp.c_proj.weight", &[FfnDown]),
    rows("layers.{}.mlp.c_proj.bias", &[FfnDownBias]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 49152,
        hidden: 3072,
        ffn: 12288,
        layers: 30,
        heads: 24,
        kv_heads: Some(2),
        head_dim: None,
        max_positions: 4096,
        norm_epsilon: 1e-5,
        theta: 10_000.0,
        tied_head: true,
    })?;
    let epsilon = reader.fields.f32("norm_epsilon")?.unwrap_or(1e-5);
    model.norm = NormConfig::new(NormKind::LayerNorm, epsilon);
    model.gated_ffn = false;
    model.activation = reader.activation("hidden_act", "gelu_pytorch_tanh")?;
    model.sliding_window = reader.window(&model, reader.window_size(None)?, |_| true);
    let there = reader.fields.bool("use_bias")?.unwrap_or(true);
    let of_matrices = [AttnQBias, AttnKBias, AttnVBias, AttnOutputBias, FfnUpBias, FfnDownBias];
    let mut biases = declared(&of_matrices, there);
    biases.extend(declared(&[AttnNormBias, FfnNormBias, FinalNormBias], true));
    Ok(SourceConfig { declared: biases, model })
}
