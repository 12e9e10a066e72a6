//! A configuration as fields of `config.json`. Whoever calls this reads the fields back: what they do not say is found then.

use qsf_format::{
    Activation, Experts, ModelConfig, NormKind, PositionConfig, Residual, RopeScaling, TensorKind,
};
use serde_json::{Map, Value, json};

use super::number::number;
use super::rope_fields::rope_fields;

/// What is known of a model.
pub(super) struct Described<'a> {
    pub config: &'a ModelConfig,
    pub model_type: &'a str,
    /// Kinds of tensors that it has.
    pub has: &'a dyn Fn(TensorKind) -> bool,
    /// Kinds that models of its architecture can have.
    pub may_have: &'a dyn Fn(TensorKind) -> bool,
}

/// Models that say of each layer whether it has a sliding window.
const TYPED_LAYERS: [&str; 9] =
    ["qwen2", "qwen3", "gemma2", "gemma3_text", "olmo3", "cohere2", "exaone4", "ministral", "smollm3"];

/// Models that have one window for all layers, or none.
const ONE_WINDOW: [&str; 6] = ["mistral", "mixtral", "phi3", "starcoder2", "qwen3_moe", "ministral3"];

/// All fields but those of tokens and types.
pub(super) fn config_fields(model: &Described<'_>) -> Map<String, Value> {
    let config = model.config;
    let mut fields = match model.model_type {
        "gpt2" => gpt2(config),
        "bloom" => bloom(config),
        "opt" => opt(model),
        _ => like_llama(model),
    };
    fields.push(("vocab_size", json!(config.vocab)));
    fields.push(("tie_word_embeddings", json!(config.tied_head)));
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

type Fields = Vec<(&'static str, Value)>;

fn gpt2(config: &ModelConfig) -> Fields {
    vec![
        ("n_embd", json!(config.hidden)),
        ("n_layer", json!(config.layers)),
        ("n_head", json!(config.heads)),
        ("n_inner", json!(config.ffn)),
        ("n_positions", json!(config.max_positions)),
        ("layer_norm_epsilon", number(config.norm.epsilon)),
        ("activation_function", json!(old_activation(config.activation))),
    ]
}

fn bloom(config: &ModelConfig) -> Fields {
    vec![
        ("hidden_size", json!(config.hidden)),
        ("n_layer", json!(config.layers)),
        ("n_head", json!(config.heads)),
        ("seq_length", json!(config.max_positions)),
        ("layer_norm_epsilon", number(config.norm.epsilon)),
    ]
}

fn opt(model: &Described<'_>) -> Fields {
    let config = model.config;
    vec![
        ("hidden_size", json!(config.hidden)),
        ("word_embed_proj_dim", json!(config.hidden)),
        ("num_hidden_layers", json!(config.layers)),
        ("num_attention_heads", json!(config.heads)),
        ("ffn_dim", json!(config.ffn)),
        ("max_position_embeddings", json!(config.max_positions)),
        ("activation_function", json!(activation(config.activation))),
        ("enable_bias", json!((model.has)(TensorKind::AttnQBias))),
        ("do_layer_norm_before", json!(true)),
    ]
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
        ("head_dim", json!(config.head_dim)),
        ("max_position_embeddings", json!(said_positions(config))),
        ("hidden_act", json!(act)),
    ];
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
    if model_type == "glm4_moe" {
        fields.push(("use_qk_norm", json!(config.qk_norm.is_some())));
    }
    if matches!(model_type, "gpt_neox" | "stablelm") {
        fields.push(("use_parallel_residual", json!(config.residual != Residual::Sequential)));
    }
    if model_type.starts_with("olmo") {
        fields.push(("clip_qkv", json!(config.qkv_clip.map(number))));
    }
    fields.extend(biases(model));
    fields.extend(rope_fields(config, model_type));
    fields.extend(windows(config, model_type));
    if let Some(experts) = &config.experts {
        fields.extend(expert_fields(experts, model_type));
    }
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
    if model_type.starts_with("qwen") || model_type == "smollm3" {
        fields.push(("use_sliding_window", json!(size.is_some())));
    }
    if matches!(model_type, "qwen2" | "qwen3" | "qwen2_moe") {
        let first = (0..config.layers).find(|&layer| config.window(layer).is_some());
        fields.push(("max_window_layers", json!(first.unwrap_or(config.layers))));
    }
    fields
}

fn expert_fields(experts: &Experts, model_type: &str) -> Fields {
    let mut fields = vec![("num_experts_per_tok", json!(experts.used))];
    match model_type {
        "mixtral" | "granitemoe" | "granitemoeshared" => {
            fields.push(("num_local_experts", json!(experts.count)));
            if let Some(shared) = experts.shared {
                fields.push(("shared_intermediate_size", json!(shared.ffn)));
            }
        }
        "qwen2_moe" | "qwen3_moe" | "olmoe" => {
            fields.push(("num_experts", json!(experts.count)));
            fields.push(("norm_topk_prob", json!(experts.normalize_weights)));
            if model_type != "olmoe" {
                fields.push(("moe_intermediate_size", json!(experts.ffn)));
                fields.push(("mlp_only_layers", json!(experts.dense_layers)));
                fields.push(("decoder_sparse_step", json!(1)));
            }
            if let Some(shared) = experts.shared {
                fields.push(("shared_expert_intermediate_size", json!(shared.ffn)));
            }
        }
        _ => {
            fields.push(("n_routed_experts", json!(experts.count)));
            fields.push(("moe_intermediate_size", json!(experts.ffn)));
            fields.push(("norm_topk_prob", json!(experts.normalize_weights)));
            fields.push(("first_k_dense_replace", json!(experts.dense_layers.len())));
            fields.push(("routed_scaling_factor", number(experts.weight_scale.unwrap_or(1.0))));
            let groups = experts.groups.map_or((1, 1), |groups| (groups.count, groups.used));
            fields.push(("n_group", json!(groups.0)));
            fields.push(("topk_group", json!(groups.1)));
            let shared = experts.shared.map_or(0, |shared| shared.ffn / experts.ffn.max(1));
            fields.push(("n_shared_experts", json!(shared)));
        }
    }
    fields
}

/// The name that models before 2022 have for the approximation by tanh.
fn old_activation(function: Activation) -> &'static str {
    if function == Activation::GeluTanh { "gelu_new" } else { activation(function) }
}

fn activation(activation: Activation) -> &'static str {
    match activation {
        Activation::Silu => "silu",
        Activation::Relu => "relu",
        Activation::Relu2 => "relu2",
        Activation::Xielu => "xielu",
        Activation::GeluErf => "gelu",
        Activation::GeluTanh => "gelu_pytorch_tanh",
    }
}
