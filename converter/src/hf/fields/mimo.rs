//! MiMo-V2-Flash as fields: heads of layers with a window, their rotation, heads of values.

use qsf_format::{ModelConfig, PositionConfig};
use serde_json::{Value, json};

use super::described::Fields;
use super::number::number;

/// What it says beside the fields that most models have.
pub(super) fn mimo_fields(config: &ModelConfig) -> Fields {
    let heads = match (config.full_attention, &config.sliding_window) {
        (Some(full), _) => full.kv_heads,
        // Layers with a window have twice as many.
        (None, Some(_)) => config.kv_heads / 2,
        (None, None) => config.kv_heads,
    };
    let values = config.value_heads;
    let scale = values.and_then(|values| values.scale).unwrap_or(1.0);
    let kind = |layer| if config.experts(layer).is_some() { "sparse" } else { "dense" };
    let mut fields = vec![
        ("num_key_value_heads", json!(heads)),
        ("v_head_dim", json!(values.map_or(config.head_dim, |values| values.dim))),
        ("attention_value_scale", number(scale)),
        ("mlp_layer_types", json!((0..config.layers).map(kind).collect::<Vec<_>>())),
    ];
    if let PositionConfig::Rope { theta, dims, sliding_theta, .. } = &config.position {
        let part = f64::from(dims.unwrap_or(config.head_dim)) / f64::from(config.head_dim.max(1));
        let of = |theta: f32| json!({ "rope_type": "default", "rope_theta": number(theta), "partial_rotary_factor": part });
        let (full, sliding): (Value, Value) = (of(*theta), of(sliding_theta.unwrap_or(*theta)));
        fields.push(("rope_parameters", json!({ "full_attention": full, "sliding_attention": sliding })));
    }
    fields
}
