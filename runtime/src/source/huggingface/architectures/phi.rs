//! Phi-1, 1.5 and 2: attention and feed-forward side by side behind one norm, part of each head rotated.

use qsf_format::TensorKind::*;
use qsf_format::{ModelConfig, NormConfig, NormKind, Residual};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{IGNORED, QKV_BIASES};
use super::reader::{declared, without_parts};
use super::rope::{self, RopeDefaults};
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const PHI: Architecture = Architecture {
    model_types: &["phi"],
    base: "model.",
    table: NameTable { rules: join_rules!(NAMES, QKV_BIASES), ignored: IGNORED },
    marks: Marks::NONE,
    config,
};

const NAMES: &[NameRule] = &[
    rows("embed_tokens.weight", &[TokenEmbedding]),
    rows("final_layernorm.weight", &[FinalNorm]),
    rows("final_layernorm.bias", &[FinalNormBias]),
    rows("lm_head.weight", &[Head]),
    rows("lm_head.bias", &[HeadBias]),
    rows("layers.{}.input_layernorm.weight", &[AttnNorm]),
    rows("layers.{}.input_layernorm.bias", &[AttnNormBias]),
    rows("layers.{}.self_attn.q_proj.weight", &[AttnQ]),
    rows("layers.{}.self_attn.k_proj.weight", &[AttnK]),
    rows("layers.{}.self_attn.v_proj.weight", &[AttnV]),
    rows("layers.{}.self_attn.dense.weight", &[AttnOutput]),
    rows("layers.{}.self_attn.dense.bias", &[AttnOutputBias]),
    rows("layers.{}.mlp.fc1.weight", &[FfnUp]),
    rows("layers.{}.mlp.fc1.bias", &[FfnUpBias]),
    rows("layers.{}.mlp.fc2.weight", &[FfnDown]),
    rows("layers.{}.mlp.fc2.bias", &[FfnDownBias]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    reader.only("qk_layernorm", false)?;
    let hidden = reader.dimension(&["hidden_size"], 2048)?;
    let heads = reader.dimension(&["num_attention_heads"], 32)?;
    let (head_dim, kv_heads) = reader.heads(hidden, heads, None, None)?;
    let positions = fields.u32("max_position_embeddings")?.unwrap_or(2048);
    let defaults = RopeDefaults {
        part: Some((0.5, "partial_rotary_factor")),
        ..RopeDefaults::new(10_000.0, head_dim, positions)
    };
    let rope = rope::positions(fields, &defaults)?;
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: reader.layers(&["num_hidden_layers"], 24)?,
        hidden,
        heads,
        kv_heads,
        head_dim,
        ffn: reader.dimension(&["intermediate_size"], 8192)?,
        vocab: reader.dimension(&["vocab_size"], 51_200)?,
        max_positions: rope.max_positions,
        norm: NormConfig::new(NormKind::LayerNorm, fields.f32("layer_norm_eps")?.unwrap_or(1e-5)),
        activation: reader.activation("hidden_act", "gelu_new")?,
        gated_ffn: false,
        position: rope.position,
        tied_head: reader.tied_head(false)?,
        residual: Residual::ParallelOneNorm,
        ..without_parts()
    };
    let biases = [
        AttnNormBias,
        AttnQBias,
        AttnKBias,
        AttnVBias,
        AttnOutputBias,
        FfnUpBias,
        FfnDownBias,
        FinalNormBias,
        HeadBias,
    ];
    Ok(SourceConfig { model, declared: declared(&biases, true) })
}
