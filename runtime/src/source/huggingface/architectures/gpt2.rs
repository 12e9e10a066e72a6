//! GPT-2: learned positions, projections stored as inputs x outputs.

use qsf_format::TensorKind::*;
use qsf_format::{ModelConfig, NormConfig, NormKind, PositionConfig};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::reader::{declared, without_parts};
use crate::error::Result;
use crate::source::mapping::{Form, NameTable, formed, rows};

pub(super) const GPT2: Architecture = Architecture {
    model_types: &["gpt2"],
    base: "transformer.",
    table: NameTable {
        rules: &[
            rows("wte.weight", &[TokenEmbedding]),
            rows("wpe.weight", &[Positions]),
            rows("ln_f.weight", &[FinalNorm]),
            rows("ln_f.bias", &[FinalNormBias]),
            rows("lm_head.weight", &[Head]),
            rows("h.{}.ln_1.weight", &[AttnNorm]),
            rows("h.{}.ln_1.bias", &[AttnNormBias]),
            formed("h.{}.attn.c_attn.weight", &[AttnQ, AttnK, AttnV], Form::Transposed),
            rows("h.{}.attn.c_attn.bias", &[AttnQBias, AttnKBias, AttnVBias]),
            formed("h.{}.attn.c_proj.weight", &[AttnOutput], Form::Transposed),
            rows("h.{}.attn.c_proj.bias", &[AttnOutputBias]),
            rows("h.{}.ln_2.weight", &[FfnNorm]),
            rows("h.{}.ln_2.bias", &[FfnNormBias]),
            formed("h.{}.mlp.c_fc.weight", &[FfnUp], Form::Transposed),
            rows("h.{}.mlp.c_fc.bias", &[FfnUpBias]),
            formed("h.{}.mlp.c_proj.weight", &[FfnDown], Form::Transposed),
            rows("h.{}.mlp.c_proj.bias", &[FfnDownBias]),
        ],
        // The causal mask and what it puts in place of scores; not to be mistaken for `attn.c_attn.bias`.
        ignored: &[".attn.bias", ".attn.masked_bias"],
    },
    marks: Marks::NONE,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    reader.only("scale_attn_by_inverse_layer_idx", false)?;
    reader.only("scale_attn_weights", true)?;
    reader.only("add_cross_attention", false)?;
    let fields = reader.fields;
    let hidden = reader.dimension(&["n_embd", "hidden_size"], 768)?;
    let heads = reader.dimension(&["n_head", "num_attention_heads"], 12)?;
    let ffn = match fields.u32("n_inner")? {
        Some(ffn) => ffn,
        None => hidden.checked_mul(4).ok_or_else(|| fields.wrong("n_embd", "at most 1048576", hidden))?,
    };
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: reader.layers(&["n_layer", "num_hidden_layers"], 12)?,
        hidden,
        heads,
        kv_heads: heads,
        head_dim: reader.head_dim("n_embd", hidden, "n_head", heads)?,
        ffn,
        vocab: reader.dimension(&["vocab_size"], 50_257)?,
        max_positions: reader.dimension(&["n_positions", "max_position_embeddings", "n_ctx"], 1024)?,
        norm: NormConfig::new(NormKind::LayerNorm, fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5)),
        activation: reader.activation("activation_function", "gelu_new")?,
        gated_ffn: false,
        position: PositionConfig::Learned {},
        tied_head: reader.tied_head(true)?,
        ..without_parts()
    };
    let biases = [
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
