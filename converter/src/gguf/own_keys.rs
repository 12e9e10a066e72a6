//! Keys that files of some architectures have beside those of all, each with what a model says of it.

use qsf_format::{ModelConfig, PositionConfig, RecurrentMixer, Residual, RopeScaling, RouterScore};
use qsf_runtime::source::gguf::GgufNames;

use super::keys::Keys;
use super::value::Value;

/// Adds the keys that files of the architecture have, where the model has what they say.
pub(super) fn add_own(keys: &mut Keys, config: &ModelConfig, names: &GgufNames) {
    add_layers(keys, config, names);
    let own = OWN.iter().filter(|(name, _)| names.has_key(name));
    for (name, value) in own {
        if let Some(value) = value(config, names) {
            keys.set(name, value);
        }
    }
}

type Own = (&'static str, fn(&ModelConfig, &GgufNames) -> Option<Value>);

const OWN: &[Own] = &[
    ("attention.scale", |config, _| config.attention_scale.map(Value::F32)),
    ("attention.clamp_kqv", |config, _| config.qkv_clip.map(Value::F32)),
    ("attention.value_scale", |config, _| Some(Value::F32(config.value_heads?.scale.unwrap_or(1.0)))),
    ("attention.max_alibi_bias", |_, _| Some(Value::F32(8.0))),
    ("tensor_data_layout", |_, _| Some(Value::Text("jploski".into()))),
    ("attention.temperature_scale", |config, _| Some(Value::F32(config.query_growth?.factor))),
    ("embedding_scale", |config, _| Some(Value::F32(config.embedding_scale.unwrap_or(1.0)))),
    ("residual_scale", |config, _| Some(Value::F32(config.residual_scale.unwrap_or(1.0)))),
    ("logit_scale", logit_scale),
    ("use_parallel_residual", |config, _| Some(Value::Bool(config.residual != Residual::Sequential))),
    // Mixtures of experts
    ("expert_weights_norm", |config, _| Some(Value::Bool(config.experts.as_ref()?.normalize_weights))),
    ("expert_weights_scale", |config, _| {
        Some(Value::F32(config.experts.as_ref()?.weight_scale.unwrap_or(1.0)))
    }),
    ("expert_gating_func", |config, _| {
        (config.experts.as_ref()?.score == RouterScore::Sigmoid).then_some(Value::U32(2))
    }),
    ("expert_group_count", |config, _| Some(Value::U32(config.experts.as_ref()?.groups?.count))),
    ("expert_group_used_count", |config, _| Some(Value::U32(config.experts.as_ref()?.groups?.used))),
    ("expert_shared_count", |config, names| {
        let experts = config.experts.as_ref()?;
        let shared = experts.shared?.ffn;
        if names.architecture() == "nemotron_h_moe" {
            // One of a width of its own, which another key says.
            return Some(Value::U32(1));
        }
        (shared.checked_rem(experts.ffn) == Some(0)).then(|| Value::U32(shared / experts.ffn))
    }),
    ("expert_shared_feed_forward_length", |config, _| Some(Value::U32(config.experts.as_ref()?.shared?.ffn))),
    ("leading_dense_block_count", |config, _| {
        Some(Value::U32(config.experts.as_ref()?.dense_layers.len() as u32))
    }),
    ("interleave_moe_layer_step", |config, names| {
        let of_experts = (0..config.layers).find(|&layer| config.experts(layer).is_some());
        // Ernie's first layers are without experts, whatever the step.
        Some(Value::U32(if names.architecture() == "llama4" { of_experts? + 1 } else { 1 }))
    }),
    // Attention by way of latents
    ("attention.kv_lora_rank", |config, _| Some(Value::U32(config.latent?.kv_rank))),
    ("attention.q_lora_rank", |config, _| config.latent?.q_rank.map(Value::U32)),
    ("attention.key_length_mla", |config, _| config.latent.map(|_| Value::U32(config.head_dim))),
    ("attention.value_length_mla", |config, _| Some(Value::U32(config.latent?.value_dim))),
    ("rope.scaling.yarn_log_multiplier", yarn_log_multiplier),
    // Layers without attention
    ("shortconv.l_cache", |config, _| taps(config)),
    ("ssm.conv_kernel", |config, _| taps(config)),
    ("ssm.state_size", |config, _| ssm(config, 0)),
    ("ssm.group_count", |config, _| ssm(config, 1)),
    ("ssm.time_step_rank", |config, _| ssm(config, 2)),
    ("ssm.inner_size", |config, _| ssm(config, 3)),
    ("ssm.dt_b_c_rms", |config, names| match config.recurrent.as_ref()?.mixer {
        // Jamba has a gain in each of these norms, which are tensors.
        RecurrentMixer::Mamba1 { norm_epsilon, .. } if names.architecture() == "mamba" => {
            Some(Value::Bool(norm_epsilon.is_some()))
        }
        _ => None,
    }),
    ("attention.recurrent_layers", |config, _| {
        let layers = &config.recurrent.as_ref()?.layers;
        Some(Value::Bools((0..config.layers).map(|layer| layers.binary_search(&layer).is_ok()).collect()))
    }),
    ("full_attention_interval", |config, _| {
        let layers = &config.recurrent.as_ref()?.layers;
        let first = (0..config.layers).find(|layer| layers.binary_search(layer).is_err());
        Some(Value::U32(first.map_or(4, |layer| layer + 1)))
    }),
    // How pairs are shared out among the positions of pictures. Those of text are equal: any will do.
    ("rope.dimension_sections", |_, _| Some(Value::I32s(vec![11, 11, 10, 0]))),
    // Residual streams, and gates that are 0 below a quantile
    ("altup.active_idx", |_, _| Some(Value::U32(0))),
    ("altup.num_inputs", |config, _| config.streams.map(Value::U32)),
    ("activation_sparsity_scale", |config, _| {
        let part = |layer: u32| config.gate_sparsity_of(layer).unwrap_or(0.0);
        Some(Value::F32s((0..config.layers).map(|layer| GgufNames::quantile_of(part(layer))).collect()))
    }),
    // Granite: whether anything is rotated
    ("rope.scaling.finetuned", |config, _| match &config.position {
        PositionConfig::Rope { unrotated_layers, .. } => {
            Some(Value::Bool(unrotated_layers.len() < config.layers as usize))
        }
        _ => None,
    }),
    // Heads of two widths, and embeddings of layers
    ("attention.key_length_swa", |config, _| Some(Value::U32(config.head_dim))),
    ("attention.value_length_swa", |config, _| Some(Value::U32(config.head_dim))),
    ("rope.dimension_count_swa", |config, _| Some(Value::U32(config.head_dim))),
    ("attention.shared_kv_layers", |config, _| {
        Some(Value::U32(config.shared_kv.map_or(0, |shared| shared.layers)))
    }),
    ("embedding_length_per_layer_input", |config, _| {
        Some(Value::U32(config.per_layer_embedding.map_or(0, |embedding| embedding.width)))
    }),
];

/// Granite's files divide by it, Cohere's multiply with it.
fn logit_scale(config: &ModelConfig, names: &GgufNames) -> Option<Value> {
    let scale = config.logit_scale.unwrap_or(1.0);
    let divides = names.architecture().starts_with("granite");
    Some(Value::F32(if divides { 1.0 / scale } else { scale }))
}

fn taps(config: &ModelConfig) -> Option<Value> {
    Some(Value::U32(config.recurrent.as_ref()?.taps))
}

/// State, groups, heads and inner width, in this order.
fn ssm(config: &ModelConfig, which: usize) -> Option<Value> {
    let numbers = match config.recurrent.as_ref()?.mixer {
        RecurrentMixer::GatedDelta { key_heads, key_dim, value_heads, value_dim } => {
            [key_dim, key_heads, value_heads, value_heads.checked_mul(value_dim)?]
        }
        RecurrentMixer::Mamba2 { heads, head_dim, groups, state } => {
            [state, groups, heads, heads.checked_mul(head_dim)?]
        }
        // It has no groups.
        RecurrentMixer::Mamba1 { width, state, rank, .. } => [state, 1, rank, width],
        RecurrentMixer::ShortConv {} => return None,
    };
    numbers.get(which).copied().map(Value::U32)
}

/// A number for each layer, and widths of heads other than those of most architectures.
fn add_layers(keys: &mut Keys, config: &ModelConfig, names: &GgufNames) {
    let recurrent = |layer: u32| config.recurrent(layer).is_some();
    if names.is_per_layer("attention.head_count_kv") {
        let attends = |layer: u32| match &config.half_layers {
            Some(halves) => halves.mixer.contains(&layer) && !recurrent(layer),
            None => !recurrent(layer),
        };
        let heads = |layer: u32| match config.full_attention_of(layer) {
            _ if !attends(layer) => 0,
            Some(full) => full.kv_heads as i32,
            None => config.kv_heads as i32,
        };
        keys.set("attention.head_count_kv", Value::I32s((0..config.layers).map(heads).collect()));
    }
    if names.is_per_layer("feed_forward_length") {
        let halves = config.half_layers.as_ref();
        let width = |layer: u32| match config.experts(layer) {
            _ if halves.is_some_and(|halves| !halves.feed_forward.contains(&layer)) => 0,
            Some(experts) if halves.is_some() => experts.ffn,
            _ => config.ffn_of(layer),
        };
        let widths = (0..config.layers).map(|layer| width(layer) as i32);
        keys.set("feed_forward_length", Value::I32s(widths.collect()));
    }
    if let Some(full) = config.full_attention {
        keys.set("attention.key_length", Value::U32(full.head_dim));
        keys.set("attention.value_length", Value::U32(full.head_dim));
    }
    if let Some(values) = config.value_heads {
        keys.set("attention.key_length", Value::U32(config.head_dim));
        keys.set("attention.value_length", Value::U32(values.dim));
    }
    if let Some(latent) = config.latent {
        let has_own = names.has_key("attention.key_length_mla");
        let cached = latent.kv_rank.saturating_add(latent.shared_dim);
        let [key, value] =
            if has_own { [cached, latent.kv_rank] } else { [config.head_dim, latent.value_dim] };
        keys.set("attention.key_length", Value::U32(key));
        keys.set("attention.value_length", Value::U32(value));
        if has_own {
            keys.set("attention.head_count_kv", Value::U32(1));
        }
    }
}

/// Of YaRN with a scale of scores: the number that makes this scale, or one beside it that does; 1 where the scale is the usual one and
/// queries and keys have no factor.
fn yarn_log_multiplier(config: &ModelConfig, _: &GgufNames) -> Option<Value> {
    let PositionConfig::Rope { scaling: Some(RopeScaling::Yarn { factor, attention_factor, .. }), .. } =
        config.position
    else {
        return None;
    };
    let Some(scale) = config.attention_scale else {
        return (attention_factor == 1.0 && config.latent.is_none()).then_some(Value::F32(1.0));
    };
    let root = (f64::from(scale) * f64::from(config.head_dim).sqrt()).sqrt();
    let multiplier = ((root - 1.0) / f64::from(factor).ln()) as f32;
    // A float is written with as few digits as tell it from others; the shortest that makes the scale was meant.
    let rounded = |digits: i32| {
        let unit = 10f64.powi(digits);
        (f64::from(multiplier) * unit).round() / unit
    };
    let makes_scale =
        |multiplier: &f64| GgufNames::scale_of_yarn(*multiplier, factor, config.head_dim) == scale;
    let found = (1..9).map(rounded).find(makes_scale).unwrap_or(f64::from(multiplier));
    Some(Value::F32(found as f32))
}
