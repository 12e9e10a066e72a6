//! The configuration as keys, named as llama.cpp's converter names them.

use qsf_format::{ModelConfig, NormKind, PositionConfig, Residual};
use qsf_runtime::source::gguf::GgufNames;

use super::keys::Keys;
use super::own_keys::add_own;
use super::value::Value;

/// Architectures whose files name the width of a head although it follows from others.
const WITH_KEY_LENGTH: [&str; 9] =
    ["gemma2", "gemma3", "gemma3n", "qwen3", "qwen3moe", "llama", "llama4", "smollm3", "cohere2"];

/// Architectures whose files say how many tokens there are, which their lists of tokens say, too.
const WITH_VOCAB_SIZE: [&str; 17] = [
    "falcon-h1",
    "nemotron_h",
    "nemotron_h_moe",
    "apertus",
    "llama",
    "llama4",
    "smollm3",
    "arcee",
    "cohere2",
    "deepseek2",
    "exaone4",
    "granite",
    "granitehybrid",
    "granitemoe",
    "lfm2",
    "mistral3",
    "mistral4",
];

/// The keys of everything but positions.
pub(super) fn add_model(keys: &mut Keys, config: &ModelConfig, names: &GgufNames) {
    let architecture = names.architecture();
    keys.u32("block_count", config.layers);
    keys.u32("context_length", config.max_positions);
    keys.u32("embedding_length", config.hidden);
    if names.has_attention() {
        keys.u32("feed_forward_length", config.ffn);
        keys.u32("attention.head_count", config.heads);
        keys.u32("attention.head_count_kv", config.kv_heads);
    } else {
        // Nor a feed-forward.
        keys.u32("feed_forward_length", 0);
        keys.u32("attention.head_count", 0);
    }
    let epsilon = match config.norm.kind {
        NormKind::RmsNorm if architecture.starts_with("nemotron_h") => "attention.layer_norm_epsilon",
        NormKind::RmsNorm => "attention.layer_norm_rms_epsilon",
        NormKind::LayerNorm if architecture == "phimoe" => "attention.layer_norm_rms_epsilon",
        NormKind::LayerNorm => "attention.layer_norm_epsilon",
    };
    keys.f32(epsilon, config.norm.epsilon);
    let usual = config.heads.checked_mul(config.head_dim) == Some(config.hidden);
    let is_rotary = matches!(config.position, PositionConfig::Rope { .. }) && names.has_attention();
    if is_rotary && (!usual || WITH_KEY_LENGTH.contains(&architecture)) {
        keys.u32("attention.key_length", config.head_dim);
        keys.u32("attention.value_length", config.head_dim);
    }
    if WITH_VOCAB_SIZE.contains(&architecture) {
        keys.u32("vocab_size", config.vocab);
    }
    if let Some(experts) = &config.experts {
        keys.u32("expert_count", experts.count);
        keys.u32("expert_used_count", experts.used);
        if architecture != "llama" {
            keys.u32("expert_feed_forward_length", experts.ffn);
        }
    }
    if architecture == "gptneox" {
        keys.add("use_parallel_residual", Value::Bool(config.residual == Residual::Parallel));
    }
    if let Some(cap) = config.attention_softcap {
        keys.f32("attn_logit_softcapping", cap);
    }
    if let Some(cap) = config.logit_softcap {
        keys.f32("final_logit_softcapping", cap);
    }
    add_window(keys, config, names);
    add_own(keys, config, names);
}

fn add_window(keys: &mut Keys, config: &ModelConfig, names: &GgufNames) {
    match &config.sliding_window {
        Some(window) => {
            let sliding = (0..config.layers).map(|layer| window.layers.binary_search(&layer).is_ok());
            if names.architecture() == "mimo2" {
                // The positions before that of the query.
                keys.u32("attention.sliding_window", window.size.saturating_sub(1));
                let pattern = Value::I32s(sliding.map(i32::from).collect());
                return keys.add("attention.sliding_window_pattern", pattern);
            }
            keys.u32("attention.sliding_window", window.size);
            let usual = names.is_default_window(window.size, &window.layers);
            if !usual || matches!(names.architecture(), "olmo2" | "gemma3n" | "gemma4") {
                keys.add("attention.sliding_window_pattern", Value::Bools(sliding.collect()));
            }
        }
        // llama.cpp takes files of these without the key for ones that have a window (Phi-4 has none).
        None if matches!(names.architecture(), "phi3" | "phimoe") => keys.u32("attention.sliding_window", 0),
        // Here it says that all layers are rotated.
        None if names.architecture() == "llama4" && all_rotated(config) => {
            keys.u32("attention.sliding_window", 0);
        }
        None => {}
    }
}

fn all_rotated(config: &ModelConfig) -> bool {
    matches!(&config.position, PositionConfig::Rope { unrotated_layers, .. } if unrotated_layers.is_empty())
}
