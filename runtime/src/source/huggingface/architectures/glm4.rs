//! GLM 4 of 2025: norms on both sides; half of each head is rotated, in neighbouring pairs.

use qsf_format::NormPlacement;
use qsf_format::TensorKind::{AttnKBias, AttnNorm, AttnQBias, AttnVBias, FfnNorm, PostAttnNorm, PostFfnNorm};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{IGNORED, JOINED_FFN, MODEL, NEIGHBOURS_ATTENTION, NEIGHBOURS_QKV_BIASES};
use super::reader::Defaults;
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const GLM4: Architecture = Architecture {
    model_types: &["glm4"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, GLM4_NORMS, NEIGHBOURS_ATTENTION, NEIGHBOURS_QKV_BIASES, JOINED_FFN),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

const GLM4_NORMS: &[NameRule] = &[
    rows("layers.{}.input_layernorm.weight", &[AttnNorm]),
    rows("layers.{}.post_self_attn_layernorm.weight", &[PostAttnNorm]),
    rows("layers.{}.post_attention_layernorm.weight", &[FfnNorm]),
    rows("layers.{}.post_mlp_layernorm.weight", &[PostFfnNorm]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like_part(
        &Defaults {
            vocab: 151552,
            hidden: 4096,
            ffn: 13696,
            layers: 40,
            heads: 32,
            kv_heads: Some(2),
            head_dim: Some(128),
            max_positions: 131072,
            norm_epsilon: 1.562_5e-7,
            theta: 10_000.0,
            tied_head: false,
        },
        Some((0.5, "partial_rotary_factor")),
    )?;
    model.norm.placement = NormPlacement::PreAndPost;
    Ok(SourceConfig {
        declared: reader.declare("attention_bias", &[AttnQBias, AttnKBias, AttnVBias])?,
        model,
    })
}
