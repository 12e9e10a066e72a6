//! Rotary positions as fields of a configuration, in the spelling that all versions of transformers read.

use qsf_format::{ModelConfig, PositionConfig, RopeScaling};
use serde_json::{Map, Value, json};

use super::latent::add_scale_of_yarn;
use super::number::number;

/// The fields of rotary positions; none for other models.
pub(super) fn rope_fields(config: &ModelConfig, model_type: &str) -> Vec<(&'static str, Value)> {
    let PositionConfig::Rope { theta, scaling, dims, sliding_theta, unrotated_layers } = &config.position
    else {
        return Vec::new();
    };
    if let ("olmo3", Some(scaling)) = (model_type, scaling) {
        return vec![("rope_parameters", by_type_of_layer(*theta, *sliding_theta, scaling))];
    }
    // Without a base nothing is rotated.
    if model_type == "olmo_hybrid" {
        let rotates = unrotated_layers.is_empty();
        let mut rope = scaling.as_ref().map_or_else(|| json!({ "rope_type": "default" }), scaling_fields);
        rope["rope_theta"] = if rotates { number(*theta) } else { Value::Null };
        return vec![("rope_parameters", rope)];
    }
    let part = dims.map(|dims| f64::from(dims) / f64::from(config.head_dim.max(1)));
    // Without a word of scaling, transformers takes the YaRN of the released models.
    let unscaled = model_type == "gpt_oss" && scaling.is_none();
    if unscaled || matches!(model_type, "ministral3" | "mistral4") {
        return vec![("rope_parameters", with_growth(config, *theta, scaling.as_ref()))];
    }
    let mut fields = vec![("rope_theta", number(*theta))];
    if let Some(scaling) = scaling {
        let mut described = scaling_fields(scaling);
        if config.latent.is_some() {
            add_scale_of_yarn(config, &mut described);
        }
        // transformers asks for both, and the decoder has one.
        if let ("phimoe", RopeScaling::LongRope { attention_factor, .. }) = (model_type, scaling) {
            described["short_mscale"] = number(*attention_factor);
            described["long_mscale"] = number(*attention_factor);
        }
        fields.push(("rope_scaling", described));
        if let RopeScaling::LongRope { original_positions, .. } = scaling
            && model_type == "phi3"
        {
            fields.push(("original_max_position_embeddings", json!(original_positions)));
        }
    }
    match model_type {
        // Which part of a head is rotated follows from its widths.
        _ if config.latent.is_some() => {}
        "gpt_neox" => {
            fields.push(("rotary_emb_base", number(*theta)));
            fields.push(("rotary_pct", json!(part.unwrap_or(1.0))));
        }
        "minimax_m2" => fields.push(("rotary_dim", json!(dims.unwrap_or(config.head_dim)))),
        "bamba" | "phi" | "stablelm" | "nemotron" | "glm" | "glm4" | "qwen3_next" | "qwen3_5_text"
        | "qwen3_5_moe_text" => {
            fields.push(("partial_rotary_factor", json!(part.unwrap_or(1.0))));
        }
        _ => fields.extend(part.map(|part| ("partial_rotary_factor", json!(part)))),
    }
    if model_type.starts_with("gemma3") {
        fields.push(("rope_local_base_freq", number(sliding_theta.unwrap_or(*theta))));
    }
    if model_type == "smollm3" {
        let rotated = (0..config.layers).map(|layer| u8::from(!unrotated_layers.contains(&layer)));
        fields.push(("no_rope_layers", json!(rotated.collect::<Vec<_>>())));
    }
    fields
}

/// Rotary positions of models whose queries grow, which only versions that nest these fields know.
fn with_growth(config: &ModelConfig, theta: f32, scaling: Option<&RopeScaling>) -> Value {
    let mut rope = scaling.map_or_else(|| json!({ "rope_type": "default" }), scaling_fields);
    add_scale_of_yarn(config, &mut rope);
    rope["rope_theta"] = number(theta);
    if let Some(growth) = config.query_growth {
        rope["llama_4_scaling_beta"] = number(growth.factor);
        rope["original_max_position_embeddings"] = json!(growth.original_positions);
    }
    rope
}

/// Layers with a window are not scaled: only versions that have this spelling know that of all models.
fn by_type_of_layer(theta: f32, sliding_theta: Option<f32>, scaling: &RopeScaling) -> Value {
    let mut full = scaling_fields(scaling);
    full["rope_theta"] = number(theta);
    let sliding = json!({ "rope_type": "default", "rope_theta": number(sliding_theta.unwrap_or(theta)) });
    json!({ "full_attention": full, "sliding_attention": sliding })
}

/// A configuration as its fields say it: transformers has no name for factors alone, but for a LongRoPE with the same factors at
/// all lengths.
pub(in super::super) fn as_written(config: &ModelConfig) -> ModelConfig {
    let mut config = config.clone();
    let original_positions = config.max_positions;
    // Its pairs that are not turned have fields of their own.
    let has_own = config.architecture == "gemma4_text";
    if let PositionConfig::Rope { scaling: Some(scaling), .. } = &mut config.position
        && let RopeScaling::Factors { factors } = scaling
        && !has_own
    {
        *scaling = RopeScaling::LongRope {
            original_positions,
            short_factors: factors.clone(),
            long_factors: std::mem::take(factors),
            attention_factor: 1.0,
        };
    }
    config
}

fn scaling_fields(scaling: &RopeScaling) -> Value {
    let mut fields: Map<String, Value> = Map::new();
    let mut add = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    match scaling {
        RopeScaling::Linear { factor } => {
            add("rope_type", json!("linear"));
            add("factor", number(*factor));
        }
        RopeScaling::Dynamic { factor, original_positions } => {
            add("rope_type", json!("dynamic"));
            add("factor", number(*factor));
            add("original_max_position_embeddings", json!(original_positions));
        }
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
            add("rope_type", json!("llama3"));
            add("factor", number(*factor));
            add("low_freq_factor", number(*low_freq_factor));
            add("high_freq_factor", number(*high_freq_factor));
            add("original_max_position_embeddings", json!(original_positions));
        }
        RopeScaling::Yarn {
            factor,
            original_positions,
            beta_fast,
            beta_slow,
            attention_factor,
            truncate,
        } => {
            add("rope_type", json!("yarn"));
            add("factor", number(*factor));
            add("original_max_position_embeddings", json!(original_positions));
            add("beta_fast", number(*beta_fast));
            add("beta_slow", number(*beta_slow));
            add("attention_factor", number(*attention_factor));
            add("truncate", json!(truncate));
        }
        // GGUF files have these; `as_written` says what they are here.
        RopeScaling::Factors { .. } => {}
        RopeScaling::LongRope { original_positions, short_factors, long_factors, attention_factor } => {
            let numbers = |all: &[f32]| json!(all.iter().map(|f| number(*f)).collect::<Vec<_>>());
            add("rope_type", json!("longrope"));
            add("short_factor", numbers(short_factors));
            add("long_factor", numbers(long_factors));
            add("attention_factor", number(*attention_factor));
            add("original_max_position_embeddings", json!(original_positions));
        }
    }
    // The name of versions before 4.43.
    let kind = fields.get("rope_type").cloned().unwrap_or_default();
    fields.insert("type".into(), kind);
    Value::Object(fields)
}
