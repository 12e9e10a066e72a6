//! Layers with a recurrence as fields.

use qsf_format::{ModelConfig, Multipliers, PositionConfig, Recurrent, RecurrentMixer, TensorKind};
use serde_json::{Value, json};

use super::described::{Described, Fields, activation};
use super::number::number;

/// What a model says of its recurrent layers beside the fields of all.
pub(super) fn recurrent_fields(model: &Described<'_>) -> Fields {
    let Described { config, model_type, .. } = *model;
    let mut fields = match model_type {
        "qwen3_next" | "qwen3_5_text" | "qwen3_5_moe_text" => {
            vec![("layer_types", kinds(config, "linear_attention", "full_attention"))]
        }
        "olmo_hybrid" => {
            let doubled = config.recurrent.as_ref().is_some_and(|recurrent| recurrent.beta_scale.is_some());
            vec![
                ("layer_types", kinds(config, "linear_attention", "full_attention")),
                ("linear_allow_neg_eigval", json!(doubled)),
            ]
        }
        "kimi_linear" => {
            let of_rank = |recurrent: &Recurrent| recurrent.channel_rank.unwrap_or(0);
            let (heads, dim) = config.recurrent.as_ref().map_or((0, 0), |r| (r.heads(), of_rank(r)));
            vec![
                ("layer_types", kinds(config, "linear_attention", "full_attention")),
                ("linear_num_heads", json!(heads)),
                ("linear_head_dim", json!(dim)),
            ]
        }
        "granitemoehybrid" => of_granite(config),
        "bamba" => {
            let attention = (0..config.layers).filter(|&layer| config.recurrent(layer).is_none());
            vec![("attn_layer_indices", json!(attention.collect::<Vec<_>>()))]
        }
        "falcon_h1" => of_falcon(config),
        "jamba" => of_jamba(config),
        "lfm2" | "lfm2_moe" => vec![
            ("layer_types", kinds(config, "conv", "full_attention")),
            ("norm_eps", number(config.norm.epsilon)),
            ("conv_bias", json!((model.has)(TensorKind::MixerConvBias))),
            ("block_auto_adjust_ff_dim", json!(false)),
        ],
        _ => return Vec::new(),
    };
    let Some(Recurrent { mixer, taps, .. }) = config.recurrent else { return fields };
    match mixer {
        RecurrentMixer::GatedDelta { key_heads, key_dim, value_heads, value_dim } => fields.extend([
            ("linear_num_key_heads", json!(key_heads)),
            ("linear_key_head_dim", json!(key_dim)),
            ("linear_num_value_heads", json!(value_heads)),
            ("linear_value_head_dim", json!(value_dim)),
            ("linear_conv_kernel_dim", json!(taps)),
        ]),
        RecurrentMixer::Mamba2 { heads, head_dim, groups, state } => fields.extend([
            ("mamba_n_heads", json!(heads)),
            ("mamba_d_head", json!(head_dim)),
            ("mamba_n_groups", json!(groups)),
            ("mamba_d_state", json!(state)),
            ("mamba_d_conv", json!(taps)),
            ("mamba_expand", expansion(config, heads, head_dim)),
            ("mamba_conv_bias", json!((model.has)(TensorKind::MixerConvBias))),
            ("mamba_proj_bias", json!(false)),
        ]),
        RecurrentMixer::Mamba1 { width, state, rank, .. } => fields.extend([
            ("mamba_d_state", json!(state)),
            ("mamba_d_conv", json!(taps)),
            ("mamba_dt_rank", json!(rank)),
            ("mamba_expand", expansion(config, width, 1)),
            ("mamba_conv_bias", json!((model.has)(TensorKind::MixerConvBias))),
            ("mamba_proj_bias", json!(false)),
        ]),
        RecurrentMixer::ShortConv {} => fields.push(("conv_L_cache", json!(taps))),
    }
    fields
}

/// One word for each layer.
fn kinds(config: &ModelConfig, recurrent: &str, attention: &str) -> Value {
    let kind = |layer| if config.recurrent(layer).is_some() { recurrent } else { attention };
    json!((0..config.layers).map(kind).collect::<Vec<_>>())
}

/// How much wider than the residual stream the state space is.
fn expansion(config: &ModelConfig, heads: u32, head_dim: u32) -> Value {
    json!((u64::from(heads) * u64::from(head_dim)).checked_div(config.hidden.into()))
}

fn of_granite(config: &ModelConfig) -> Fields {
    let rotated = match &config.position {
        PositionConfig::Rope { unrotated_layers, .. } => unrotated_layers.len() < config.layers as usize,
        _ => false,
    };
    let mut fields = vec![
        ("layer_types", kinds(config, "mamba", "attention")),
        ("position_embedding_type", json!(if rotated { "rope" } else { "nope" })),
    ];
    if config.experts.is_none() {
        fields.extend([
            ("num_local_experts", json!(0)),
            ("num_experts_per_tok", json!(0)),
            ("shared_intermediate_size", json!(config.ffn)),
        ]);
    }
    fields
}

/// Factors, of which those of scores are those of keys.
fn of_falcon(config: &ModelConfig) -> Fields {
    let factor = |factor: Option<f32>| number(factor.unwrap_or(1.0));
    let Multipliers { attention, mixer, mixer_gate, mixer_inputs: [x, b, c], mixer_step, ffn_gate, ffn } =
        config.multipliers.unwrap_or(Multipliers::ONES);
    let of_keys = config.attention_scale.map_or(1.0, |s| f64::from(s) * f64::from(config.head_dim).sqrt());
    let inner = config.recurrent.as_ref().map_or(0, |r| r.output_columns(config.hidden as usize));
    let without_norm = config.recurrent.as_ref().is_some_and(|recurrent| recurrent.without_norm);
    vec![
        ("mamba_d_ssm", json!(inner)),
        ("mamba_rms_norm", json!(!without_norm)),
        ("mamba_norm_before_gate", json!(false)),
        ("projectors_bias", json!(false)),
        ("embedding_multiplier", factor(config.embedding_scale)),
        ("lm_head_multiplier", factor(config.logit_scale)),
        ("key_multiplier", json!(of_keys)),
        ("attention_in_multiplier", json!(1.0)),
        ("attention_out_multiplier", number(attention)),
        ("ssm_in_multiplier", json!(1.0)),
        ("ssm_out_multiplier", number(mixer)),
        ("ssm_multipliers", json!([mixer_gate, x, b, c, mixer_step].map(number))),
        ("mlp_multipliers", json!([ffn_gate, ffn].map(number))),
    ]
}

/// Layers at an offset of every period, of attention and of experts.
fn of_jamba(config: &ModelConfig) -> Fields {
    let mut fields = Vec::new();
    let mut every = |names: [&'static str; 2], layers: Vec<u32>| {
        let first = layers.first().copied().unwrap_or(config.layers);
        // Where there is one, or none, the period goes beyond the last layer.
        let period = layers.get(1).map_or(config.layers + 1, |second| second - first);
        fields.extend([(names[0], json!(period)), (names[1], json!(first))]);
    };
    let of = |has: &dyn Fn(u32) -> bool| (0..config.layers).filter(|&layer| has(layer)).collect::<Vec<_>>();
    every(["attn_layer_period", "attn_layer_offset"], of(&|layer| config.has_attention(layer)));
    every(["expert_layer_period", "expert_layer_offset"], of(&|layer| config.experts(layer).is_some()));
    if config.experts.is_none() {
        fields.extend([("num_experts", json!(1)), ("num_experts_per_tok", json!(1))]);
    }
    fields
}

/// Models of Mamba-1 alone.
pub(super) fn mamba1(model: &Described<'_>) -> Fields {
    let config = model.config;
    let mut fields = vec![
        ("hidden_size", json!(config.hidden)),
        ("num_hidden_layers", json!(config.layers)),
        ("layer_norm_epsilon", number(config.norm.epsilon)),
        ("hidden_act", json!("silu")),
        ("use_bias", json!(false)),
        ("use_conv_bias", json!((model.has)(TensorKind::MixerConvBias))),
    ];
    if let Some(Recurrent {
        mixer: RecurrentMixer::Mamba1 { width, state, rank, norm_epsilon, .. },
        taps,
        ..
    }) = config.recurrent
    {
        fields.extend([
            ("state_size", json!(state)),
            ("time_step_rank", json!(rank)),
            ("conv_kernel", json!(taps)),
            ("expand", expansion(config, width, 1)),
            ("intermediate_size", json!(width)),
        ]);
        fields.extend(norm_epsilon.map(|epsilon| ("mixer_rms_eps", number(epsilon))));
    }
    fields
}

/// Models of Mamba-2 alone.
pub(super) fn mamba2(model: &Described<'_>) -> Fields {
    let config = model.config;
    let mut fields = vec![
        ("hidden_size", json!(config.hidden)),
        ("num_hidden_layers", json!(config.layers)),
        ("layer_norm_epsilon", number(config.norm.epsilon)),
        ("hidden_act", json!("silu")),
        ("use_bias", json!(false)),
        ("use_conv_bias", json!((model.has)(TensorKind::MixerConvBias))),
    ];
    if let Some(Recurrent { mixer: RecurrentMixer::Mamba2 { heads, head_dim, .. }, .. }) = config.recurrent {
        fields.push(("expand", expansion(config, heads, head_dim)));
    }
    fields.extend(mamba2_numbers(config, ["num_heads", "head_dim", "state_size"]));
    fields
}

/// Models whose layers are one part each.
pub(super) fn nemotron_h(model: &Described<'_>) -> Fields {
    let config = model.config;
    let part = |layer: u32| match (config.has_mixer(layer), config.recurrent(layer)) {
        (true, Some(_)) => "mamba",
        (true, None) => "attention",
        _ if config.experts(layer).is_some() => "moe",
        _ => "mlp",
    };
    let mut fields = vec![
        ("hidden_size", json!(config.hidden)),
        ("intermediate_size", json!(config.ffn)),
        ("layers_block_type", json!((0..config.layers).map(part).collect::<Vec<_>>())),
        ("num_hidden_layers", json!(config.layers)),
        ("max_position_embeddings", json!(config.max_positions)),
        ("layer_norm_epsilon", number(config.norm.epsilon)),
        ("mlp_hidden_act", json!(activation(config.activation))),
        ("mlp_bias", json!((model.has)(TensorKind::FfnUpBias))),
        ("num_attention_heads", json!(config.heads)),
        ("num_key_value_heads", json!(config.kv_heads)),
        ("head_dim", json!(config.head_dim)),
        ("attention_bias", json!(false)),
        ("mamba_hidden_act", json!("silu")),
        ("mamba_proj_bias", json!(false)),
        ("use_bias", json!(false)),
        ("use_conv_bias", json!((model.has)(TensorKind::MixerConvBias))),
    ];
    fields.extend(mamba2_numbers(config, ["mamba_num_heads", "mamba_head_dim", "ssm_state_size"]));
    fields
}

/// The numbers of Mamba-2 in models whose layers call every part their mixer: heads, their width and state by these names.
fn mamba2_numbers(config: &ModelConfig, [of_heads, of_width, of_state]: [&'static str; 3]) -> Fields {
    let Some(Recurrent { mixer: RecurrentMixer::Mamba2 { heads, head_dim, groups, state }, taps, .. }) =
        config.recurrent
    else {
        return Vec::new();
    };
    vec![
        (of_heads, json!(heads)),
        (of_width, json!(head_dim)),
        ("n_groups", json!(groups)),
        (of_state, json!(state)),
        ("conv_kernel", json!(taps)),
    ]
}
