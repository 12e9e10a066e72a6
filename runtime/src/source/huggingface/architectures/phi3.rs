//! Phi-3 and 4: LLaMA with joined projections, and LongRoPE for long contexts.

use qsf_format::TensorKind::{AttnK, AttnOutput, AttnQ, AttnV, FfnDown, FfnGate, FfnUp};
use qsf_format::{ModelConfig, NormConfig, NormKind};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{IGNORED, MODEL, PRE_NORMS};
use super::reader::{plain, without_parts};
use super::rope::{self, RopeDefaults};
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const PHI3: Architecture = Architecture {
    model_types: &["phi3"],
    base: "model.",
    table: NameTable { rules: join_rules!(MODEL, PRE_NORMS, LAYER), ignored: IGNORED },
    marks: Marks::NONE,
    config,
};

const LAYER: &[NameRule] = &[
    rows("layers.{}.self_attn.qkv_proj.weight", &[AttnQ, AttnK, AttnV]),
    rows("layers.{}.self_attn.o_proj.weight", &[AttnOutput]),
    rows("layers.{}.mlp.gate_up_proj.weight", &[FfnGate, FfnUp]),
    rows("layers.{}.mlp.down_proj.weight", &[FfnDown]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let hidden = reader.dimension(&["hidden_size"], 3072)?;
    let heads = reader.dimension(&["num_attention_heads"], 32)?;
    let (head_dim, kv_heads) = reader.heads(hidden, heads, None, None)?;
    let positions = fields.u32("max_position_embeddings")?.unwrap_or(4096);
    let defaults = RopeDefaults {
        yarn_is_longrope: true,
        part: Some((1.0, "partial_rotary_factor")),
        ..RopeDefaults::new(10_000.0, head_dim, positions)
    };
    let rope = rope::positions(fields, &defaults)?;
    let mut model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers: reader.layers(&["num_hidden_layers"], 32)?,
        hidden,
        heads,
        kv_heads,
        head_dim,
        ffn: reader.dimension(&["intermediate_size"], 8192)?,
        vocab: reader.dimension(&["vocab_size"], 32_064)?,
        max_positions: rope.max_positions,
        norm: NormConfig::new(NormKind::RmsNorm, fields.f32("rms_norm_eps")?.unwrap_or(1e-5)),
        activation: reader.activation("hidden_act", "silu")?,
        gated_ffn: true,
        position: rope.position,
        tied_head: reader.tied_head(false)?,
        ..without_parts()
    };
    model.sliding_window = reader.window(&model, reader.window_size(None)?, |_| true);
    Ok(plain(model))
}
