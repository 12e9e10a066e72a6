//! Gemma 1: LLaMA with gains of 1 + w and scaled embeddings.

use qsf_format::Activation;

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, OUTPUT_BIAS, PRE_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const GEMMA: Architecture = Architecture {
    model_types: &["gemma"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 256000,
        hidden: 3072,
        ffn: 24576,
        layers: 28,
        heads: 16,
        kv_heads: Some(16),
        head_dim: Some(256),
        max_positions: 8192,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: true,
    })?;
    reader.only("use_bidirectional_attention", false)?;
    model.norm.gain_plus_one = true;
    // "gelu" is a mistake of the first files: the models were trained with the approximation.
    model.activation = match reader.activation("hidden_act", "gelu_pytorch_tanh")? {
        Activation::GeluErf => Activation::GeluTanh,
        other => other,
    };
    model.embedding_scale = Some(f64::from(model.hidden).sqrt() as f32);
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
