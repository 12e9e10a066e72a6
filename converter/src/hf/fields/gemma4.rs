//! Gemma 4 as fields: two kinds of heads, rotations of both, layers that share.

use qsf_format::{ModelConfig, PositionConfig, RopeScaling};
use serde_json::{Value, json};

use super::described::Fields;
use super::number::{number, shortest};

/// Frequencies that are divided by as much turn nothing.
const NO_ROTATION: f32 = 1e30;

/// What Gemma 4 says beside the fields of all Gemma models.
pub(super) fn gemma4_fields(config: &ModelConfig) -> Fields {
    let mut fields = vec![("enable_moe_block", json!(config.experts.is_some()))];
    if let Some(experts) = &config.experts {
        fields.push(("num_experts", json!(experts.count)));
        fields.push(("top_k_experts", json!(experts.used)));
        fields.push(("moe_intermediate_size", json!(experts.ffn)));
    }
    if let Some(full) = config.full_attention {
        fields.push(("global_head_dim", json!(full.head_dim)));
        fields.push(("attention_k_eq_v", json!(full.keys_are_values)));
        fields.push(("num_global_key_value_heads", json!(full.kv_heads)));
    }
    let shared = config.shared_kv;
    fields.push(("num_kv_shared_layers", json!(shared.map_or(0, |shared| shared.layers))));
    fields.push(("use_double_wide_mlp", json!(shared.is_some_and(|shared| shared.ffn.is_some()))));
    let of_layers = config.per_layer_embedding;
    fields.push(("hidden_size_per_layer_input", json!(of_layers.map_or(0, |of| of.width))));
    fields.push(("vocab_size_per_layer_input", json!(of_layers.map_or(config.vocab, |of| of.vocab))));
    if let Some(rope) = rope(config) {
        fields.push(("rope_parameters", rope));
    }
    fields
}

fn rope(config: &ModelConfig) -> Option<Value> {
    let PositionConfig::Rope { theta, scaling, sliding_theta, .. } = &config.position else { return None };
    let mut full = json!({ "rope_theta": number(*theta) });
    match scaling {
        None => full["rope_type"] = json!("default"),
        Some(RopeScaling::Factors { factors })
        | Some(RopeScaling::LongRope { short_factors: factors, .. }) => {
            let rotated = factors.iter().filter(|factor| **factor != NO_ROTATION).count();
            let pairs = factors.len().max(1) as f64;
            let part = shortest(rotated as f64 / pairs, |part| (part * pairs).floor() as usize == rotated);
            full["rope_type"] = json!("proportional");
            full["partial_rotary_factor"] = json!(part);
            full["factor"] = number(factors.first().copied().unwrap_or(1.0));
        }
        Some(_) => return None,
    }
    let sliding = json!({ "rope_type": "default", "rope_theta": number(sliding_theta.unwrap_or(*theta)) });
    Some(json!({ "full_attention": full, "sliding_attention": sliding }))
}
