//! GPT-NeoX and Pythia: attention and feed-forward side by side, each behind a norm of its own; part of each head rotated.

use qsf_format::TensorKind::*;
use qsf_format::{ModelConfig, NormConfig, NormKind, Residual};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::reader::{declared, without_parts};
use super::rope::{self, RopeDefaults};
use crate::error::Result;
use crate::source::mapping::{Form, NameTable, formed, rows};

pub(super) const GPT_NEOX: Architecture = Architecture {
    model_types: &["gpt_neox"],
    base: "gpt_neox.",
    table: NameTable {
        rules: &[
            rows("embed_in.weight", &[TokenEmbedding]),
            rows("final_layer_norm.weight", &[FinalNorm]),
            rows("final_layer_norm.bias", &[FinalNormBias]),
            rows("embed_out.weight", &[Head]),
            rows("lm_head.weight", &[Head]),
            rows("layers.{}.input_layernorm.weight", &[AttnNorm]),
            rows("layers.{}.input_layernorm.bias", &[AttnNormBias]),
            formed("layers.{}.attention.query_key_value.weight", &[AttnQ, AttnK, AttnV], Form::HeadByHead),
            formed(
                "layers.{}.attention.query_key_value.bias",
                &[AttnQBias, AttnKBias, AttnVBias],
                Form::HeadByHead,
            ),
            rows("layers.{}.attention.dense.weight", &[AttnOutput]),
            rows("layers.{}.attention.dense.bias", &[AttnOutputBias]),
            rows("layers.{}.post_attention_layernorm.weight", &[FfnNorm]),
            rows("layers.{}.post_attention_layernorm.bias", &[FfnNormBias]),
            rows("layers.{}.mlp.dense_h_to_4h.weight", &[FfnUp]),
            rows("layers.{}.mlp.dense_h_to_4h.bias", &[FfnUpBias]),
            rows("layers.{}.mlp.dense_4h_to_h.weight", &[FfnDown]),
            rows("layers.{}.mlp.dense_4h_to_h.bias", &[FfnDownBias]),
        ],
        // The causal mask and what it puts in place of scores.
        ignored: &[".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"],
    },
    marks: Marks::NONE,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let hidden = reader.dimension(&["hidden_size"], 6144)?;
    let heads = reader.dimension(&["num_attention_heads"], 64)?;
    let head_dim = reader.head_dim("hidden_size", hidden, "num_attention_heads", heads)?;
    let positions = fields.u32("max_position_embeddings")?.unwrap_or(2048);
    let rope = rope::positions(
        fields,
        &RopeDefaults {
            theta_name: "rotary_emb_base",
            part: Some((0.25, "rotary_pct")),
            ..RopeDefaults::new(10_000.0, head_dim, positions)
        },
    )?;
    let parallel = fields.bool("use_parallel_residual")?.unwrap_or(true);
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: reader.layers(&["num_hidden_layers"], 44)?,
        hidden,
        heads,
        kv_heads: heads,
        head_dim,
        ffn: reader.dimension(&["intermediate_size"], 24_576)?,
        vocab: reader.dimension(&["vocab_size"], 50_432)?,
        max_positions: rope.max_positions,
        norm: NormConfig::new(NormKind::LayerNorm, fields.f32("layer_norm_eps")?.unwrap_or(1e-5)),
        activation: reader.activation("hidden_act", "gelu")?,
        gated_ffn: false,
        position: rope.position,
        tied_head: reader.tied_head(false)?,
        residual: if parallel { Residual::Parallel } else { Residual::Sequential },
        ..without_parts()
    };
    let with_bias = fields.bool("attention_bias")?.unwrap_or(true);
    let mut biases = declared(&[AttnQBias, AttnKBias, AttnVBias, AttnOutputBias], with_bias);
    biases.extend(declared(&[AttnNormBias, FfnNormBias, FfnUpBias, FfnDownBias, FinalNormBias], true));
    Ok(SourceConfig { model, declared: biases })
}
