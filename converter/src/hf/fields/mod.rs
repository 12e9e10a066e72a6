//! A configuration as fields of `config.json`. Whoever calls this reads the fields back: what they do not say is found then.
//!
//! | File | Duty |
//! |---|---|
//! | `described` | what is known of a model, and names of functions |
//! | `number` | numbers with no more digits than they need |
//! | `rope` | rotary positions |
//! | `latent` | attention by way of latents |
//! | `recurrent` | layers with a recurrence |
//! | `experts` | mixtures of experts |
//! | `gemma3n`, `gemma4` | Gemma 3n and 4 |
//! | `llama4` | Llama 4 |
//! | `mimo` | MiMo-V2-Flash |
//! | `older` | models whose fields have names of their own |

mod described;
mod experts;
mod gemma3n;
mod gemma4;
mod latent;
mod llama4;
mod mimo;
mod number;
mod older;
mod recurrent;
mod rope;

use qsf_format::{ModelConfig, NormKind, NormPlacement, PositionConfig, Residual, RopeScaling, TensorKind};
use serde_json::{Map, Value, json};

pub(super) use self::described::Described;
use self::described::{Fields, activation, old_activation};
use self::number::number;
pub(super) use self::rope::as_written;
use self::rope::rope_fields;

/// Models that say of each layer whether it has a sliding window.
const TYPED_LAYERS: [&str; 13] = [
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3_text",
    "gemma3n_text",
    "gemma4_text",
    "gpt_oss",
    "olmo3",
    "cohere2",
    "exaone4",
    "ministral",
    "smollm3",
    "mimo_v2_flash",
];

/// Models that have one window for all layers, or none.
const ONE_WINDOW: [&str; 7] =
    ["mistral", "mixtral", "phi3", "phimoe", "starcoder2", "qwen3_moe", "ministral3"];

/// All fields but those of tokens and types.
pub(super) fn config_fields(model: &Described<'_>) -> Map<String, Value> {
    let config = model.config;
    let mut fields = match model.model_type {
        "gpt2" => older::gpt2(config),
        "gpt_bigcode" => older::gpt_bigcode(config),
        "gptj" | "codegen" => older::gptj(config),
        "falcon" => {
            let mut fields = older::falcon(model);
            fields.extend(rope_fields(config, model.model_type));
            fields
        }
        "mpt" => older::mpt(config),
        "bloom" => older::bloom(config),
        "opt" => older::opt(model),
        "mamba" | "falcon_mamba" => recurrent::mamba1(model),
        "mamba2" => recurrent::mamba2(model),
        "nemotron_h" => recurrent::nemotron_h(model),
        _ => like_llama(model),
    };
    if let Some(experts) = &config.experts {
        fields.extend(experts::expert_fields(config, experts, model.model_type));
    }
    fields.push(("vocab_size", json!(config.vocab)));
    fields.push(("tie_word_embeddings", json!(config.tied_head)));
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The names that most architectures have.
fn like_llama(model: &Described<'_>) -> Fields {
    let &Described { config, model_type, .. } = model;
    let act = match model_type {
        "phi" => old_activation(config.activation),
        _ => activation(config.activation),
    };
    let mut fields = vec![
        ("hidden_size", json!(config.hidden)),
        ("intermediate_size", json!(config.ffn)),
        ("num_hidden_layers", json!(config.layers)),
        ("num_attention_heads", json!(config.heads)),
        ("num_key_value_heads", json!(config.kv_heads)),
        ("max_position_embeddings", json!(said_positions(config))),
        ("hidden_act", json!(act)),
    ];
    match &config.latent {
        None => fields.push(("head_dim", json!(config.head_dim))),
        Some(latent) => fields.extend(latent::latent_fields(config, latent, model_type)),
    }
    let epsilon = match (model_type, config.norm.kind) {
        ("starcoder2", _) => "norm_epsilon",
        ("nemotron", _) => "norm_eps",
        (_, NormKind::RmsNorm) => "rms_norm_eps",
        (_, NormKind::LayerNorm) => "layer_norm_eps",
    };
    fields.push((epsilon, number(config.norm.epsilon)));
    if model_type.starts_with("gemma") {
        fields.push(("hidden_activation", json!(activation(config.activation))));
        if let Some(scale) = config.attention_scale {
            fields.push(("query_pre_attn_scalar", scalar_of(scale)));
        }
        fields.push(("attn_logit_softcapping", json!(config.attention_softcap.map(number))));
        fields.push(("final_logit_softcapping", json!(config.logit_softcap.map(number))));
    }
    if model_type.starts_with("granite") {
        let factor = |factor: Option<f32>| number(factor.unwrap_or(1.0));
        fields.push(("embedding_multiplier", factor(config.embedding_scale)));
        fields.push(("residual_multiplier", factor(config.residual_scale)));
        fields.push(("attention_multiplier", factor(config.attention_scale)));
        fields.push(("logits_scaling", number(1.0 / config.logit_scale.unwrap_or(1.0))));
    }
    if model_type.starts_with("cohere") {
        fields.push(("logit_scale", number(config.logit_scale.unwrap_or(1.0))));
        fields.push(("use_qk_norm", json!(config.qk_norm.is_some())));
    }
    if matches!(model_type, "glm4_moe" | "minimax_m2") {
        fields.push(("use_qk_norm", json!(config.qk_norm.is_some())));
    }
    if matches!(model_type, "gpt_neox" | "stablelm") {
        fields.push(("use_parallel_residual", json!(config.residual != Residual::Sequential)));
    }
    if model_type.starts_with("olmo") && model_type != "olmo_hybrid" {
        fields.push(("clip_qkv", json!(config.qkv_clip.map(number))));
    }
    if model_type == "hyperclovax" {
        fields.push(("embedding_multiplier", number(config.embedding_scale.unwrap_or(1.0))));
        fields.push(("residual_multiplier", number(config.residual_scale.unwrap_or(1.0))));
        fields.push(("attention_multiplier", json!(config.attention_scale.map(number))));
        fields.push(("logits_scaling", number(config.logit_scale.unwrap_or(1.0))));
        fields.push(("use_post_norm", json!(config.norm.placement == NormPlacement::PreAndPost)));
    }
    if model_type == "gemma3n_text" {
        fields.extend(gemma3n::gemma3n_fields(config));
    }
    if model_type == "phimoe" {
        fields.push(("rms_norm_eps", number(config.norm.epsilon)));
        fields.push(("lm_head_bias", json!((model.has)(TensorKind::HeadBias))));
    }
    if model_type == "llama4_text" {
        fields.extend(llama4::llama4_fields(config));
    }
    if model_type == "gpt_oss" {
        fields.push(("swiglu_alpha", json!(config.gate_clip.map(|clip| number(clip.alpha)))));
        fields.push(("swiglu_limit", json!(config.gate_clip.map(|clip| number(clip.limit)))));
    }
    fields.extend(biases(model));
    match model_type {
        "gemma4_text" => fields.extend(gemma4::gemma4_fields(config)),
        "mimo_v2_flash" => fields.extend(mimo::mimo_fields(config)),
        _ => fields.extend(rope_fields(config, model_type)),
    }
    fields.extend(windows(config, model_type));
    fields.extend(recurrent::recurrent_fields(model));
    fields
}

/// `max_position_embeddings`: of a dynamic scaling that is what it goes beyond.
fn said_positions(config: &ModelConfig) -> u32 {
    match config.position {
        PositionConfig::Rope { scaling: Some(RopeScaling::Dynamic { original_positions, .. }), .. } => {
            original_positions
        }
        _ => config.max_positions,
    }
}

/// `query_pre_attn_scalar`, whose inverse root is the scale: mostly a whole number, of which an f32 has lost the last digits.
fn scalar_of(scale: f32) -> Value {
    let scalar = 1.0 / (f64::from(scale) * f64::from(scale));
    let whole = scalar.round();
    // transformers takes no fraction where a whole number says it.
    if (whole.powf(-0.5) as f32) == scale { json!(whole as u64) } else { json!(scalar) }
}

fn biases(model: &Described<'_>) -> Fields {
    use TensorKind::*;
    let there = |kind| json!((model.has)(kind));
    match model.model_type {
        "qwen2" | "phi" | "phi3" => Vec::new(),
        "qwen2_moe" => vec![("qkv_bias", there(AttnQBias))],
        "stablelm" => vec![("use_qkv_bias", there(AttnQBias))],
        "starcoder2" | "ernie4_5" => vec![("use_bias", there(AttnQBias))],
        _ => {
            let mut fields = Vec::new();
            if (model.may_have)(AttnQBias) {
                fields.push(("attention_bias", there(AttnQBias)));
            }
            if model.model_type == "seed_oss" {
                fields.push(("attention_out_bias", there(AttnOutputBias)));
            }
            if (model.may_have)(FfnUpBias) && model.model_type != "gpt_neox" {
                fields.push(("mlp_bias", there(FfnUpBias)));
            }
            fields
        }
    }
}

fn windows(config: &ModelConfig, model_type: &str) -> Fields {
    // Chunks have fields of their own.
    if model_type == "llama4_text" {
        return Vec::new();
    }
    let size = config.sliding_window.as_ref().map(|window| window.size);
    let mut fields = Vec::new();
    if TYPED_LAYERS.contains(&model_type) {
        let kind =
            |layer| if config.window(layer).is_some() { "sliding_attention" } else { "full_attention" };
        fields.push(("layer_types", json!((0..config.layers).map(kind).collect::<Vec<_>>())));
    } else if !ONE_WINDOW.contains(&model_type) && size.is_none() {
        return fields;
    }
    fields.push(("sliding_window", json!(size)));
    if matches!(model_type, "qwen2" | "qwen3" | "qwen2_moe" | "qwen3_moe" | "smollm3") {
        fields.push(("use_sliding_window", json!(size.is_some())));
    }
    if matches!(model_type, "qwen2" | "qwen3" | "qwen2_moe") {
        let first = (0..config.layers).find(|&layer| config.window(layer).is_some());
        fields.push(("max_window_layers", json!(first.unwrap_or(config.layers))));
    }
    fields
}
