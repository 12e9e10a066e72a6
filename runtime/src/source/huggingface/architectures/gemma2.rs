//! Gemma 2: norms with 1 + w on both sides, soft-capped scores and logits, every other layer with a window.

use qsf_format::TensorKind::{AttnNorm, FfnNorm, PostAttnNorm, PostFfnNorm};
use qsf_format::{ModelConfig, NormPlacement};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, OUTPUT_BIAS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const GEMMA2: Architecture = Architecture {
    model_types: &["gemma2"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, FOUR_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[AttnNorm, FfnNorm, PostAttnNorm, PostFfnNorm]),
    config,
};

/// Norms on both sides of attention and of the feed-forward.
pub(super) const FOUR_NORMS: &[NameRule] = &[
    rows("layers.{}.input_layernorm.weight", &[AttnNorm]),
    rows("layers.{}.post_attention_layernorm.weight", &[PostAttnNorm]),
    rows("layers.{}.pre_feedforward_layernorm.weight", &[FfnNorm]),
    rows("layers.{}.post_feedforward_layernorm.weight", &[PostFfnNorm]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 256_000,
        hidden: 2304,
        ffn: 9216,
        layers: 26,
        heads: 8,
        kv_heads: Some(4),
        head_dim: Some(256),
        max_positions: 8192,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: true,
    })?;
    as_gemma(reader, &mut model)?;
    model.attention_softcap = softcap(reader, "attn_logit_softcapping", Some(50.0))?;
    model.logit_softcap = softcap(reader, "final_logit_softcapping", Some(30.0))?;
    let types = reader.sliding_layers(model.layers)?;
    model.sliding_window = reader.window(&model, reader.window_size(Some(4096))?, |layer| match &types {
        Some(types) => types[layer as usize],
        None => layer % 2 == 0,
    });
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}

/// What Gemma 2 and 3 have in common.
pub(super) fn as_gemma(reader: &Reader<'_>, model: &mut ModelConfig) -> Result<()> {
    reader.only("use_bidirectional_attention", false)?;
    model.norm.gain_plus_one = true;
    model.norm.placement = NormPlacement::PreAndPost;
    // `hidden_act` beside it is a leftover of Gemma 1, which nothing reads.
    model.activation = reader.activation("hidden_activation", "gelu_pytorch_tanh")?;
    model.embedding_scale = Some(f64::from(model.hidden).sqrt() as f32);
    let scalar = reader.fields.f64("query_pre_attn_scalar")?.unwrap_or(256.0);
    let usual = scalar == f64::from(model.head_dim);
    model.attention_scale = (!usual).then(|| scalar.powf(-0.5) as f32);
    Ok(())
}

/// A cap; null means none, and a field that is not there what the configuration class takes for it.
pub(super) fn softcap(reader: &Reader<'_>, name: &str, default: Option<f32>) -> Result<Option<f32>> {
    Ok(if reader.fields.map.contains_key(name) { reader.fields.f32(name)? } else { default })
}
