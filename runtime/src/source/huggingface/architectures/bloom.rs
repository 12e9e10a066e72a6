//! BLOOM: ALiBi positions, a norm of the embedding.

use qsf_format::TensorKind::*;
use qsf_format::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::reader::{declared, without_parts};
use crate::error::Result;
use crate::source::mapping::{Form, NameTable, formed, rows};

pub(super) const BLOOM: Architecture = Architecture {
    model_types: &["bloom"],
    base: "transformer.",
    table: NameTable {
        rules: &[
            rows("word_embeddings.weight", &[TokenEmbedding]),
            rows("word_embeddings_layernorm.weight", &[EmbeddingNorm]),
            rows("word_embeddings_layernorm.bias", &[EmbeddingNormBias]),
            rows("ln_f.weight", &[FinalNorm]),
            rows("ln_f.bias", &[FinalNormBias]),
            rows("lm_head.weight", &[Head]),
            rows("h.{}.input_layernorm.weight", &[AttnNorm]),
            rows("h.{}.input_layernorm.bias", &[AttnNormBias]),
            formed("h.{}.self_attention.query_key_value.weight", &[AttnQ, AttnK, AttnV], Form::HeadByHead),
            formed(
                "h.{}.self_attention.query_key_value.bias",
                &[AttnQBias, AttnKBias, AttnVBias],
                Form::HeadByHead,
            ),
            rows("h.{}.self_attention.dense.weight", &[AttnOutput]),
            rows("h.{}.self_attention.dense.bias", &[AttnOutputBias]),
            rows("h.{}.post_attention_layernorm.weight", &[FfnNorm]),
            rows("h.{}.post_attention_layernorm.bias", &[FfnNormBias]),
            rows("h.{}.mlp.dense_h_to_4h.weight", &[FfnUp]),
            rows("h.{}.mlp.dense_h_to_4h.bias", &[FfnUpBias]),
            rows("h.{}.mlp.dense_4h_to_h.weight", &[FfnDown]),
            rows("h.{}.mlp.dense_4h_to_h.bias", &[FfnDownBias]),
        ],
        ignored: &[],
    },
    marks: Marks::NONE,
    config,
};

/// ALiBi has no longest sequence; this is the context that BLOOM was trained with (arXiv 2211.05100, table 3).
const TRAINED_POSITIONS: u32 = 2048;

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    reader.only("apply_residual_connection_post_layernorm", false)?;
    let fields = reader.fields;
    // `n_embed` is the older name, and goes first in transformers too.
    let hidden = reader.dimension(&["n_embed", "hidden_size"], 64)?;
    let heads = reader.dimension(&["n_head", "num_attention_heads"], 8)?;
    let ffn = hidden.checked_mul(4).ok_or_else(|| fields.wrong("hidden_size", "at most 1048576", hidden))?;
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: reader.layers(&["n_layer", "num_hidden_layers"], 2)?,
        hidden,
        heads,
        kv_heads: heads,
        head_dim: reader.head_dim("hidden_size", hidden, "num_attention_heads", heads)?,
        ffn,
        vocab: reader.dimension(&["vocab_size"], 250_880)?,
        max_positions: fields.u32("seq_length")?.unwrap_or(TRAINED_POSITIONS),
        norm: NormConfig::new(NormKind::LayerNorm, fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5)),
        activation: Activation::GeluTanh,
        gated_ffn: false,
        position: PositionConfig::alibi(),
        tied_head: reader.tied_head(true)?,
        embedding_norm: true,
        ..without_parts()
    };
    let biases = [
        EmbeddingNormBias,
        AttnNormBias,
        AttnQBias,
        AttnKBias,
        AttnVBias,
        AttnOutputBias,
        FfnNormBias,
        FfnUpBias,
        FfnDownBias,
        FinalNormBias,
    ];
    Ok(SourceConfig { model, declared: declared(&biases, true) })
}
