//! Models whose fields have names of their own: GPT-2 and what came before there was one custom.

use qsf_format::{ModelConfig, PositionConfig, Residual, TensorKind};
use serde_json::json;

use super::described::{Described, Fields, activation, old_activation};
use super::number::number;

pub(super) fn gpt2(config: &ModelConfig) -> Fields {
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

pub(super) fn gpt_bigcode(config: &ModelConfig) -> Fields {
    let mut fields = gpt2(config);
    fields.push(("multi_query", json!(config.kv_heads == 1)));
    fields
}

pub(super) fn gptj(config: &ModelConfig) -> Fields {
    let mut fields = gpt2(config);
    if let PositionConfig::Rope { dims, .. } = config.position {
        fields.push(("rotary_dim", json!(dims.unwrap_or(config.head_dim))));
    }
    fields
}

/// The old architecture has one key/value head or one for each query head; the new one says how many.
pub(super) fn falcon(model: &Described<'_>) -> Fields {
    let config = model.config;
    let new = config.residual == Residual::Parallel || ![1, config.heads].contains(&config.kv_heads);
    vec![
        ("hidden_size", json!(config.hidden)),
        ("num_hidden_layers", json!(config.layers)),
        ("num_attention_heads", json!(config.heads)),
        ("ffn_hidden_size", json!(config.ffn)),
        ("max_position_embeddings", json!(config.max_positions)),
        ("layer_norm_epsilon", number(config.norm.epsilon)),
        ("activation", json!(activation(config.activation))),
        ("alibi", json!(matches!(config.position, PositionConfig::Alibi { .. }))),
        ("new_decoder_architecture", json!(new)),
        ("num_kv_heads", json!(config.kv_heads)),
        ("multi_query", json!(config.kv_heads == 1)),
        ("parallel_attn", json!(config.residual != Residual::Sequential)),
        ("num_ln_in_parallel_attn", json!(if config.residual == Residual::Parallel { 2 } else { 1 })),
        ("bias", json!((model.has)(TensorKind::AttnQBias))),
    ]
}

pub(super) fn mpt(config: &ModelConfig) -> Fields {
    let attention = json!({
        "alibi": true,
        "alibi_bias_max": 8,
        "clip_qkv": config.qkv_clip.map(number),
        "prefix_lm": false,
        "qk_ln": false,
        "softmax_scale": config.attention_scale.map(number),
    });
    vec![
        ("d_model", json!(config.hidden)),
        ("n_layers", json!(config.layers)),
        ("n_heads", json!(config.heads)),
        ("max_seq_len", json!(config.max_positions)),
        ("layer_norm_epsilon", number(config.norm.epsilon)),
        ("no_bias", json!(true)),
        ("attn_config", attention),
    ]
}

pub(super) fn bloom(config: &ModelConfig) -> Fields {
    vec![
        ("hidden_size", json!(config.hidden)),
        ("n_layer", json!(config.layers)),
        ("n_head", json!(config.heads)),
        ("seq_length", json!(config.max_positions)),
        ("layer_norm_epsilon", number(config.norm.epsilon)),
    ]
}

pub(super) fn opt(model: &Described<'_>) -> Fields {
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
