//! StarCoder 1 and SantaCoder: GPT-2 with one head of keys and values.

use qsf_format::TensorKind::*;
use qsf_format::{ModelConfig, NormConfig, NormKind, PositionConfig};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::reader::{declared, without_parts};
use crate::error::Result;
use crate::source::mapping::{NameTable, rows};

pub(super) const GPT_BIGCODE: Architecture = Architecture {
    model_types: &["gpt_bigcode"],
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
            rows("h.{}.attn.c_attn.weight", &[AttnQ, AttnK, AttnV]),
            rows("h.{}.attn.c_attn.bias", &[AttnQBias, AttnKBias, AttnVBias]),
            rows("h.{}.attn.c_proj.weight", &[AttnOutput]),
            rows("h.{}.attn.c_proj.bias", &[AttnOutputBias]),
            rows("h.{}.ln_2.weight", &[FfnNorm]),
            rows("h.{}.ln_2.bias", &[FfnNormBias]),
            rows("h.{}.mlp.c_fc.weight", &[FfnUp]),
            rows("h.{}.mlp.c_fc.bias", &[FfnUpBias]),
            rows("h.{}.mlp.c_proj.weight", &[FfnDown]),
            rows("h.{}.mlp.c_proj.bias", &[FfnDownBias]),
        ],
        // The causal mask; not to be mistaken for `attn.c_attn.bias`.
        ignored: &[".attn.bias", ".attn.masked_bias"],
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    reader.only("scale_attn_weights", true)?;
    reader.only("add_cross_attention", false)?;
    // Otherwise queries, keys and values lie in another order.
    reader.only("multi_query", true)?;
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
        kv_heads: 1,
        head_dim: reader.head_dim("n_embd", hidden, "n_head", heads)?,
        ffn,
        vocab: reader.dimension(&["vocab_size"], 50_257)?,
        max_positions: fields.u32("n_positions")?.unwrap_or(1024),
        norm: NormConfig::new(NormKind::LayerNorm, fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5)),
        activation: reader.activation("activation_function", "gelu_pytorch_tanh")?,
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
