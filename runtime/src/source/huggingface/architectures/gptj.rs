//! GPT-J: attention and feed-forward side by side behind one norm, part of each head rotated in neighbouring pairs.

use qsf_format::TensorKind::*;
use qsf_format::{ModelConfig, NormConfig, NormKind, PositionConfig, Residual};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::reader::{declared, without_parts};
use crate::error::Result;
use crate::source::mapping::{Form, NameTable, formed, rows};

pub(super) const GPTJ: Architecture = Architecture {
    model_types: &["gptj"],
    base: "transformer.",
    table: NameTable {
        rules: &[
            rows("wte.weight", &[TokenEmbedding]),
            rows("ln_f.weight", &[FinalNorm]),
            rows("ln_f.bias", &[FinalNormBias]),
            rows("lm_head.weight", &[Head]),
            rows("lm_head.bias", &[HeadBias]),
            rows("h.{}.ln_1.weight", &[AttnNorm]),
            rows("h.{}.ln_1.bias", &[AttnNormBias]),
            formed("h.{}.attn.q_proj.weight", &[AttnQ], Form::NeighbouringPairs),
            formed("h.{}.attn.k_proj.weight", &[AttnK], Form::NeighbouringPairs),
            rows("h.{}.attn.v_proj.weight", &[AttnV]),
            rows("h.{}.attn.out_proj.weight", &[AttnOutput]),
            rows("h.{}.mlp.fc_in.weight", &[FfnUp]),
            rows("h.{}.mlp.fc_in.bias", &[FfnUpBias]),
            rows("h.{}.mlp.fc_out.weight", &[FfnDown]),
            rows("h.{}.mlp.fc_out.bias", &[FfnDownBias]),
        ],
        // The causal mask and what it puts in place of scores; angles.
        ignored: &[".attn.bias", ".attn.masked_bias", ".attn.embed_positions"],
    },
    marks: Marks::BY_NAME,
    config,
};

pub(super) fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let hidden = reader.dimension(&["n_embd", "hidden_size"], 4096)?;
    let heads = reader.dimension(&["n_head", "num_attention_heads"], 16)?;
    let head_dim = reader.head_dim("n_embd", hidden, "n_head", heads)?;
    let rotated = fields.u32("rotary_dim")?.unwrap_or(64);
    let ffn = match fields.u32("n_inner")? {
        Some(ffn) => ffn,
        None => hidden.checked_mul(4).ok_or_else(|| fields.wrong("n_embd", "at most 1048576", hidden))?,
    };
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: reader.layers(&["n_layer", "num_hidden_layers"], 28)?,
        hidden,
        heads,
        kv_heads: heads,
        head_dim,
        ffn,
        vocab: reader.dimension(&["vocab_size"], 50_400)?,
        max_positions: fields.u32("n_positions")?.unwrap_or(2048),
        norm: NormConfig::new(NormKind::LayerNorm, fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5)),
        activation: reader.activation("activation_function", "gelu_new")?,
        gated_ffn: false,
        position: PositionConfig::Rope {
            theta: 10_000.0,
            scaling: None,
            dims: (rotated != head_dim).then_some(rotated),
            sliding_theta: None,
            unrotated_layers: Vec::new(),
        },
        tied_head: reader.tied_head(false)?,
        residual: Residual::ParallelOneNorm,
        ..without_parts()
    };
    Ok(SourceConfig {
        model,
        declared: declared(&[AttnNormBias, FfnUpBias, FfnDownBias, FinalNormBias, HeadBias], true),
    })
}
