//! Llama 4 (the text part): attention within chunks, every fourth layer without rotation and over all positions, experts beside one
//! for all tokens.

use qsf_format::TensorKind::*;
use qsf_format::{Experts, PositionConfig, QkNorm, QueryGrowth, RouterScore, SharedExperts};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{IGNORED, MODEL, NEIGHBOURS_ATTENTION, NEIGHBOURS_QKV_BIASES, OUTPUT_BIAS, PRE_NORMS};
use super::reader::Defaults;
use super::smollm3::rotated_layers;
use crate::error::Result;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const LLAMA4: Architecture = Architecture {
    model_types: &["llama4_text", "llama4"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            NEIGHBOURS_ATTENTION,
            NEIGHBOURS_QKV_BIASES,
            OUTPUT_BIAS,
            FEED_FORWARD
        ),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["intermediate_size_mlp"], ..Marks::NONE },
    config,
};

const FEED_FORWARD: &[NameRule] = &[
    rows("layers.{}.feed_forward.gate_proj.weight", &[FfnGate]),
    rows("layers.{}.feed_forward.up_proj.weight", &[FfnUp]),
    rows("layers.{}.feed_forward.down_proj.weight", &[FfnDown]),
    rows("layers.{}.feed_forward.router.weight", &[Router]),
    formed("layers.{}.feed_forward.experts.gate_up_proj", &[ExpertGate, ExpertUp], Form::TransposedExperts),
    formed("layers.{}.feed_forward.experts.down_proj", &[ExpertDown], Form::TransposedExperts),
    rows("layers.{}.feed_forward.shared_expert.gate_proj.weight", &[SharedGate]),
    rows("layers.{}.feed_forward.shared_expert.up_proj.weight", &[SharedUp]),
    rows("layers.{}.feed_forward.shared_expert.down_proj.weight", &[SharedDown]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let mut model = reader.llama_like(&Defaults {
        vocab: 202_048,
        hidden: 5120,
        ffn: 8192,
        layers: 48,
        heads: 40,
        kv_heads: Some(8),
        head_dim: Some(128),
        max_positions: 131_072,
        norm_epsilon: 1e-5,
        theta: 500_000.0,
        tied_head: false,
    })?;
    let layers = model.layers;
    let rotated = rotated_layers(reader, layers)?;
    let types = reader.layers_of_type(layers, "chunked_attention")?;
    let chunk = match fields.map.contains_key("attention_chunk_size") {
        true => fields.u32("attention_chunk_size")?,
        false => Some(8192),
    };
    model.sliding_window = reader.window(&model, chunk, |layer| match &types {
        Some(chunked) => chunked.contains(&layer),
        None => rotated[layer as usize],
    });
    model.window_chunks = model.sliding_window.is_some();
    if let PositionConfig::Rope { unrotated_layers, .. } = &mut model.position {
        *unrotated_layers = (0..layers).filter(|&layer| !rotated[layer as usize]).collect();
    }
    if fields.bool("use_qk_norm")?.unwrap_or(true) {
        model.qk_norm = Some(QkNorm::RotatedHeadPlain);
    }
    model.query_growth = query_growth(reader)?;
    let width = model.ffn;
    let dense = dense_layers(reader, layers)?;
    if dense.len() < layers as usize {
        model.experts = Some(Experts {
            count: reader.dimension(&["num_local_experts"], 16)?,
            used: reader.dimension(&["num_experts_per_tok"], 1)?,
            ffn: width,
            dense_layers: dense,
            score: RouterScore::Sigmoid,
            weigh_inputs: true,
            shared: Some(SharedExperts { ffn: width, gated: false }),
            ..Experts::default()
        });
    }
    model.ffn = reader.dimension(&["intermediate_size_mlp"], 16_384)?;
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}

/// Queries of layers without rotation grow, where a truth value or a number that is not 0 says so.
fn query_growth(reader: &Reader<'_>) -> Result<Option<QueryGrowth>> {
    let fields = reader.fields;
    let is_number = fields.get("attn_temperature_tuning").is_some_and(serde_json::Value::is_number);
    let grows = match is_number {
        true => fields.u32("attn_temperature_tuning")? != Some(0),
        false => fields.bool("attn_temperature_tuning")?.unwrap_or(true),
    };
    // A whole number, written as a float by some.
    let scale = fields.f64("floor_scale")?.unwrap_or(8192.0);
    if scale < 1.0 || scale.fract() != 0.0 || scale > f64::from(1u32 << 30) {
        return Err(fields.wrong("floor_scale", "a whole number of 1 or more", scale));
    }
    let growth = QueryGrowth {
        factor: fields.f32("attn_scale")?.unwrap_or(0.1),
        original_positions: scale as u32,
        from_one: true,
        unrotated_only: true,
    };
    Ok(grows.then_some(growth))
}

/// Layers without experts: all but `moe_layers`, or but every `interleave_moe_layer_step`-th.
fn dense_layers(reader: &Reader<'_>, layers: u32) -> Result<Vec<u32>> {
    let fields = reader.fields;
    if let Some(listed) = fields.u32s("moe_layers")? {
        return Ok((0..layers).filter(|layer| !listed.contains(layer)).collect());
    }
    let step = fields.u32("interleave_moe_layer_step")?.unwrap_or(1);
    if step == 0 {
        return Err(fields.wrong("interleave_moe_layer_step", "1 or more", step));
    }
    Ok((0..layers).filter(|layer| (layer + 1) % step != 0).collect())
}
