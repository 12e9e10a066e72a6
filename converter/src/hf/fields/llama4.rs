//! Llama 4 as fields: chunks, layers without rotation, queries that grow, experts in some layers.

use qsf_format::{ModelConfig, PositionConfig};
use serde_json::json;

use super::described::Fields;
use super::number::number;

/// What Llama 4 says beside the fields of LLaMA.
pub(super) fn llama4_fields(config: &ModelConfig) -> Fields {
    let rotated = |layer: u32| match &config.position {
        PositionConfig::Rope { unrotated_layers, .. } => !unrotated_layers.contains(&layer),
        _ => false,
    };
    let layers = 0..config.layers;
    let kind = |layer| if config.window(layer).is_some() { "chunked_attention" } else { "full_attention" };
    let mut fields = vec![
        ("intermediate_size_mlp", json!(config.ffn)),
        ("use_qk_norm", json!(config.qk_norm.is_some())),
        ("no_rope_layers", json!(layers.clone().map(|layer| u8::from(rotated(layer))).collect::<Vec<_>>())),
        ("attention_chunk_size", json!(config.sliding_window.as_ref().map(|window| window.size))),
        ("layer_types", json!(layers.clone().map(kind).collect::<Vec<_>>())),
        ("attn_temperature_tuning", json!(config.query_growth.is_some())),
    ];
    if let Some(growth) = config.query_growth {
        fields.push(("attn_scale", number(growth.factor)));
        fields.push(("floor_scale", json!(growth.original_positions)));
    }
    let with_experts = layers.filter(|&layer| config.experts(layer).is_some());
    fields.push(("moe_layers", json!(with_experts.collect::<Vec<_>>())));
    if let Some(experts) = &config.experts {
        fields.push(("intermediate_size", json!(experts.ffn)));
        fields.push(("num_local_experts", json!(experts.count)));
        fields.push(("num_experts_per_tok", json!(experts.used)));
    }
    fields
}
