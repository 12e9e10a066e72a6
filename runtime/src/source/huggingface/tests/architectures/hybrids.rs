//! Models in which some layers have another mixer than attention.

use super::*;
use qsf_format::Multipliers;

pub(super) fn samples() -> Vec<TinyModel> {
    vec![
        qwen3_5(),
        qwen3_next(),
        qwen3_5_moe(),
        lfm2(),
        lfm2_moe(),
        bamba(),
        falcon_h1(),
        olmo_hybrid(),
        granitemoehybrid(),
    ]
}

/// Gated attention in the second layer, a delta net in the first.
fn qwen3_5() -> TinyModel {
    let config = json!({
        "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 1, "linear_key_head_dim": 3,
        "linear_num_value_heads": 2, "linear_value_head_dim": 5, "linear_conv_kernel_dim": 4, "head_dim": 8,
    });
    hybrid("qwen3_5_text", config, DELTA_INPUTS)
}

const DELTA_INPUTS: Shapes<'_> = &[
    ("linear_attn.in_proj_qkv.weight", &[16, 8]),
    ("linear_attn.in_proj_z.weight", &[10, 8]),
    ("linear_attn.in_proj_a.weight", &[2, 8]),
    ("linear_attn.in_proj_b.weight", &[2, 8]),
];

fn hybrid(model_type: &str, fields: Value, inputs: Shapes<'_>) -> TinyModel {
    let attention: Shapes<'_> = &[
        ("self_attn.q_proj.weight", &[32, 8]),
        ("self_attn.k_proj.weight", &[8, 8]),
        ("self_attn.v_proj.weight", &[8, 8]),
        ("self_attn.o_proj.weight", &[8, 16]),
        ("self_attn.q_norm.weight", &[8]),
        ("self_attn.k_norm.weight", &[8]),
    ];
    let delta: Shapes<'_> = &[
        ("linear_attn.conv1d.weight", &[16, 1, 4]),
        ("linear_attn.A_log", &[2]),
        ("linear_attn.dt_bias", &[2]),
        ("linear_attn.norm.weight", &[5]),
        ("linear_attn.out_proj.weight", &[8, 10]),
    ];
    let layer = [LLAMA_NORMS, LLAMA_FFN, attention, delta, inputs].concat();
    let mut model = model(merged(llama_config(model_type), fields), LLAMA_MODEL, "model.layers.", &layer);
    model.tensors.retain(|name, _| !name.contains(".0.self_attn") && !name.contains(".1.linear_attn"));
    // Small enough for e^v to be a number.
    model.with_tensor("model.layers.0.linear_attn.A_log", Plain::f32(&[2], -2.0))
}

/// Three experts of width 4 and one for all tokens of width 6.
fn with_experts(mut model: TinyModel, layers: std::ops::Range<u32>) -> TinyModel {
    for (name, value) in [("num_experts", 3), ("num_experts_per_tok", 2), ("moe_intermediate_size", 4)] {
        model.config[name] = json!(value);
    }
    model.config["shared_expert_intermediate_size"] = json!(6);
    let mut first = 10_000;
    for layer in layers {
        model.tensors.retain(|name, _| !name.contains(&format!("layers.{layer}.mlp")));
        let mut add = |name: String, shape: &[usize]| {
            let tensor = Plain::f32(shape, first as f32);
            first += shape.iter().product::<usize>();
            model.tensors.insert(format!("model.layers.{layer}.mlp.{name}"), tensor);
        };
        add("gate.weight".into(), &[3, 8]);
        for e in 0..3 {
            add(format!("experts.{e}.gate_proj.weight"), &[4, 8]);
            add(format!("experts.{e}.up_proj.weight"), &[4, 8]);
            add(format!("experts.{e}.down_proj.weight"), &[8, 4]);
        }
        add("shared_expert.gate_proj.weight".into(), &[6, 8]);
        add("shared_expert.up_proj.weight".into(), &[6, 8]);
        add("shared_expert.down_proj.weight".into(), &[8, 6]);
        add("shared_expert_gate.weight".into(), &[1, 8]);
    }
    model
}

fn qwen3_next() -> TinyModel {
    let inputs: Shapes<'_> =
        &[("linear_attn.in_proj_qkvz.weight", &[26, 8]), ("linear_attn.in_proj_ba.weight", &[4, 8])];
    let mut model = hybrid("qwen3_next", qwen3_5().config, inputs);
    model.config["model_type"] = json!("qwen3_next");
    model.config["decoder_sparse_step"] = json!(2);
    with_experts(model, 1..2)
}

fn qwen3_5_moe() -> TinyModel {
    let mut model = qwen3_5();
    model.config["model_type"] = json!("qwen3_5_moe_text");
    model.config.as_object_mut().unwrap().remove("intermediate_size");
    with_experts(model, 0..2)
}

/// A convolution in the first layer, attention in the second.
fn lfm2() -> TinyModel {
    let config = json!({
        "layer_types": ["conv", "full_attention"], "conv_L_cache": 3, "conv_bias": true, "norm_eps": 1e-5,
        "block_auto_adjust_ff_dim": false,
    });
    let of_model: Shapes<'_> = &[
        ("model.embed_tokens.weight", &[10, 8]),
        ("model.embedding_norm.weight", &[8]),
        ("lm_head.weight", &[10, 8]),
    ];
    let layer: Shapes<'_> = &[
        ("operator_norm.weight", &[8]),
        ("ffn_norm.weight", &[8]),
        ("self_attn.q_proj.weight", &[12, 8]),
        ("self_attn.k_proj.weight", &[6, 8]),
        ("self_attn.v_proj.weight", &[6, 8]),
        ("self_attn.out_proj.weight", &[8, 12]),
        ("self_attn.q_layernorm.weight", &[6]),
        ("self_attn.k_layernorm.weight", &[6]),
        ("conv.in_proj.weight", &[24, 8]),
        ("conv.in_proj.bias", &[24]),
        ("conv.conv.weight", &[8, 1, 3]),
        ("conv.conv.bias", &[8]),
        ("conv.out_proj.weight", &[8, 8]),
        ("conv.out_proj.bias", &[8]),
        ("feed_forward.w1.weight", &[12, 8]),
        ("feed_forward.w3.weight", &[12, 8]),
        ("feed_forward.w2.weight", &[8, 12]),
    ];
    let mut model = model(merged(llama_config("lfm2"), config), of_model, "model.layers.", layer);
    model.tensors.retain(|name, _| !name.contains(".0.self_attn") && !name.contains(".1.conv"));
    model
}

/// Two experts of width 4 in the second layer.
fn lfm2_moe() -> TinyModel {
    let mut model = lfm2();
    let fields = json!({
        "model_type": "lfm2_moe", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 4,
        "num_dense_layers": 1, "routed_scaling_factor": 2.0,
    });
    model.config = merged(model.config, fields);
    model.tensors.retain(|name, _| !name.contains("layers.1.feed_forward"));
    let mut first = 20_000;
    for (name, shape) in [
        ("gate.weight", &[2, 8][..]),
        ("expert_bias", &[2]),
        ("experts.0.w1.weight", &[4, 8]),
        ("experts.0.w2.weight", &[8, 4]),
        ("experts.0.w3.weight", &[4, 8]),
        ("experts.1.w1.weight", &[4, 8]),
        ("experts.1.w2.weight", &[8, 4]),
        ("experts.1.w3.weight", &[4, 8]),
    ] {
        let tensor = Plain::f32(shape, first as f32);
        first += shape.iter().product::<usize>();
        model.tensors.insert(format!("model.layers.1.feed_forward.{name}"), tensor);
    }
    model
}

/// Mamba-2 in the first layer: 2 heads of 8, 2 groups with states of 3.
fn bamba() -> TinyModel {
    let config = json!({
        "attn_layer_indices": [1], "mamba_n_heads": 2, "mamba_d_head": "auto", "mamba_n_groups": 2,
        "mamba_d_state": 3, "mamba_expand": 2, "mamba_d_conv": 4, "attention_bias": false, "mlp_bias": false,
        "time_step_limit": [0.0, null], "head_dim": 8,
    });
    let of_model: Shapes<'_> = &[
        ("model.embed_tokens.weight", &[10, 8]),
        ("model.final_layernorm.weight", &[8]),
        ("lm_head.weight", &[10, 8]),
    ];
    let layer: Shapes<'_> = &[
        ("input_layernorm.weight", &[8]),
        ("pre_ff_layernorm.weight", &[8]),
        ("self_attn.q_proj.weight", &[16, 8]),
        ("self_attn.k_proj.weight", &[8, 8]),
        ("self_attn.v_proj.weight", &[8, 8]),
        ("self_attn.o_proj.weight", &[8, 16]),
        ("mamba.in_proj.weight", &[16 + 28 + 2, 8]),
        ("mamba.conv1d.weight", &[28, 1, 4]),
        ("mamba.conv1d.bias", &[28]),
        ("mamba.dt_bias", &[2]),
        ("mamba.D", &[2]),
        ("mamba.norm.weight", &[16]),
        ("mamba.out_proj.weight", &[8, 16]),
        ("feed_forward.gate_proj.weight", &[12, 8]),
        ("feed_forward.up_proj.weight", &[12, 8]),
        ("feed_forward.down_proj.weight", &[8, 12]),
    ];
    let mut model = model(merged(llama_config("bamba"), config), of_model, "model.layers.", layer);
    model.tensors.retain(|name, _| !name.contains(".0.self_attn") && !name.contains(".1.mamba"));
    model.with_tensor("model.layers.0.mamba.A_log", Plain::f32(&[2], -2.0))
}

/// Attention beside Mamba-2 in both layers: 2 heads of 5, 1 group with states of 3, no norm.
fn falcon_h1() -> TinyModel {
    let config = json!({
        "mamba_d_ssm": 10, "mamba_n_heads": 2, "mamba_d_head": 5, "mamba_n_groups": 1, "mamba_d_state": 3,
        "mamba_d_conv": 4, "attention_bias": false, "mlp_bias": false, "head_dim": 8,
        "embedding_multiplier": 2.0, "lm_head_multiplier": 0.5, "key_multiplier": 0.25,
        "attention_in_multiplier": 2.0, "attention_out_multiplier": 3.0, "ssm_in_multiplier": 4.0,
        "ssm_out_multiplier": 5.0, "ssm_multipliers": [1, 2, 3, 4, 5], "mlp_multipliers": [6, 7],
    });
    let of_model: Shapes<'_> = &[
        ("model.embed_tokens.weight", &[10, 8]),
        ("model.final_layernorm.weight", &[8]),
        ("lm_head.weight", &[10, 8]),
    ];
    let layer: Shapes<'_> = &[
        ("input_layernorm.weight", &[8]),
        ("pre_ff_layernorm.weight", &[8]),
        ("self_attn.q_proj.weight", &[16, 8]),
        ("self_attn.k_proj.weight", &[8, 8]),
        ("self_attn.v_proj.weight", &[8, 8]),
        ("self_attn.o_proj.weight", &[8, 16]),
        ("mamba.in_proj.weight", &[10 + 16 + 2, 8]),
        ("mamba.conv1d.weight", &[16, 1, 4]),
        ("mamba.conv1d.bias", &[16]),
        ("mamba.dt_bias", &[2]),
        ("mamba.D", &[2]),
        ("mamba.out_proj.weight", &[8, 10]),
        ("feed_forward.gate_proj.weight", &[12, 8]),
        ("feed_forward.up_proj.weight", &[12, 8]),
        ("feed_forward.down_proj.weight", &[8, 12]),
    ];
    let model = model(merged(llama_config("falcon_h1"), config), of_model, "model.layers.", layer);
    model
        .with_tensor("model.layers.0.mamba.A_log", Plain::f32(&[2], -2.0))
        .with_tensor("model.layers.1.mamba.A_log", Plain::f32(&[2], -4.0))
}

/// A delta net with norms before its parts, then attention with norms behind them: 1 key head of 3, 2 value heads of 5.
fn olmo_hybrid() -> TinyModel {
    let config = json!({
        "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 1, "linear_key_head_dim": 3,
        "linear_num_value_heads": 2, "linear_value_head_dim": 5, "linear_conv_kernel_dim": 4, "head_dim": 8,
        "linear_allow_neg_eigval": true, "rope_parameters": {"rope_type": "default", "rope_theta": null},
    });
    let of_model: Shapes<'_> =
        &[("model.embed_tokens.weight", &[10, 8]), ("model.norm.weight", &[8]), ("lm_head.weight", &[10, 8])];
    let layer: Shapes<'_> = &[
        ("attention_layer_norm.weight", &[8]),
        ("feedforward_layer_norm.weight", &[8]),
        ("post_attention_layernorm.weight", &[8]),
        ("post_feedforward_layernorm.weight", &[8]),
        ("self_attn.q_proj.weight", &[16, 8]),
        ("self_attn.k_proj.weight", &[8, 8]),
        ("self_attn.v_proj.weight", &[8, 8]),
        ("self_attn.o_proj.weight", &[8, 16]),
        ("self_attn.q_norm.weight", &[16]),
        ("self_attn.k_norm.weight", &[8]),
        ("linear_attn.q_proj.weight", &[3, 8]),
        ("linear_attn.k_proj.weight", &[3, 8]),
        ("linear_attn.v_proj.weight", &[10, 8]),
        ("linear_attn.g_proj.weight", &[10, 8]),
        ("linear_attn.a_proj.weight", &[2, 8]),
        ("linear_attn.b_proj.weight", &[2, 8]),
        ("linear_attn.q_conv1d.weight", &[3, 1, 4]),
        ("linear_attn.k_conv1d.weight", &[3, 1, 4]),
        ("linear_attn.v_conv1d.weight", &[10, 1, 4]),
        ("linear_attn.dt_bias", &[2]),
        ("linear_attn.o_norm.weight", &[5]),
        ("linear_attn.o_proj.weight", &[8, 10]),
        ("mlp.gate_proj.weight", &[12, 8]),
        ("mlp.up_proj.weight", &[12, 8]),
        ("mlp.down_proj.weight", &[8, 12]),
    ];
    let mut model = model(merged(llama_config("olmo_hybrid"), config), of_model, "model.layers.", layer);
    model.tensors.retain(|name, _| {
        let of_attention = name.contains("self_attn") || name.contains("post_");
        let of_delta = name.contains("linear_attn") || name.ends_with("_layer_norm.weight");
        !(name.contains("layers.0.") && of_attention || name.contains("layers.1.") && of_delta)
    });
    model.with_tensor("model.layers.0.linear_attn.A_log", Plain::f32(&[2], -2.0))
}

#[test]
fn pieces_of_a_tensor_are_put_together_and_each_of_them_is_missed() {
    let source = olmo_hybrid().open().unwrap();
    let id = |kind| qsf_format::TensorId::of_layer(0, kind);
    let inputs = source.load(id(TensorKind::MixerIn)).unwrap();
    let stored = |name: &str| {
        let model = olmo_hybrid();
        let name = format!("model.layers.0.linear_attn.{name}.weight");
        let bytes = model.tensors[&name].bytes.clone();
        let four = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
        bytes.chunks_exact(4).map(four).collect::<Vec<f32>>()
    };
    let expected: Vec<f32> = ["q_proj", "k_proj", "v_proj"].into_iter().flat_map(stored).collect();
    assert_eq!((inputs.rows(), inputs.to_f32()), (16, expected));
    let filters = source.load(id(TensorKind::MixerConv)).unwrap();
    let expected: Vec<f32> = ["q_conv1d", "k_conv1d", "v_conv1d"].into_iter().flat_map(stored).collect();
    assert_eq!(filters.to_f32(), expected);
    assert_eq!(source.config().recurrent.as_ref().unwrap().beta_scale, Some(2.0));
    for (shape, says) in [(&[4, 8], "16 outputs"), (&[3, 7], "a part of the rows")] {
        let wrong =
            olmo_hybrid().with_tensor("model.layers.0.linear_attn.k_proj.weight", Plain::f32(shape, 1.0));
        assert_says(&wrong.refusal(), &["k_proj", says]);
    }
}

#[test]
fn factors_of_falcon_h1_are_those_of_its_parts_and_what_is_not_done_is_refused() {
    let source = falcon_h1().open().unwrap();
    let config = source.config();
    assert_eq!((config.embedding_scale, config.logit_scale), (Some(2.0), Some(0.5)));
    assert_eq!(config.attention_scale, None, "0.25 * 2 * 2 is 1");
    let expected = Multipliers {
        attention: 6.0,
        mixer: 5.0,
        mixer_gate: 4.0,
        mixer_inputs: [8.0, 12.0, 16.0],
        mixer_step: 20.0,
        ffn_gate: 6.0,
        ffn: 7.0,
    };
    assert_eq!(config.multipliers, Some(expected));
    for (field, value, says) in [
        ("projectors_bias", json!(true), "projectors_bias"),
        ("mamba_proj_bias", json!(true), "mamba_proj_bias"),
        ("mamba_rms_norm", json!(true), "mamba_norm_before_gate"),
        ("attention_bias", json!(true), "attention_in_multiplier"),
        ("ssm_multipliers", json!([1, 2]), "5 numbers"),
        ("mlp_multipliers", json!([1, 0]), "multipliers ffn is 0"),
        ("mamba_d_ssm", json!(12), "mamba_d_ssm"),
    ] {
        assert_says(&falcon_h1().with(field, value).refusal(), &[says]);
    }
}

#[test]
fn state_spaces_that_contradict_each_other_or_are_not_done_are_refused_by_name() {
    for (field, value, says) in [
        ("mamba_n_heads", json!(3), "mamba_n_heads"),
        ("mamba_d_head", json!(9), "mamba_n_heads"),
        ("mamba_n_groups", json!(4), "multiple of groups = 4"),
        ("mamba_d_state", json!(0), "state is 0"),
        ("mamba_proj_bias", json!(true), "mamba_proj_bias"),
        ("time_step_limit", json!([0.01, 0.1]), "time_step_limit"),
        ("mamba_conv_bias", json!(false), "conv1d.bias"),
    ] {
        assert_says(&bamba().with(field, value).refusal(), &[says]);
    }
}

#[test]
fn the_feed_forward_of_lfm2_is_as_wide_as_its_factors_say_and_layers_follow_from_either_list() {
    let width = |fields: Value| {
        let mut model = lfm2();
        model.config = merged(model.config, fields);
        model.refusal()
    };
    // 12 * 2 / 3 * 1.3, up to the next multiple of 4: not the 12 that the tensors have.
    let fields =
        json!({"block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.3, "block_multiple_of": 4});
    assert_says(&width(merged(fields.clone(), json!({"block_ff_dim": 24}))), &["w1.weight", "[20, 8]"]);
    let mut model = lfm2();
    model.config = merged(model.config, fields);
    assert_eq!(model.open().unwrap().config().ffn, 12);
    let by_list = lfm2().with("layer_types", Value::Null).with("full_attn_idxs", json!([1]));
    assert_eq!(by_list.open().unwrap().config(), lfm2().open().unwrap().config());
    assert_says(
        &lfm2().with("layer_types", json!(["conv", "linear_attention"])).refusal(),
        &["linear_attention"],
    );
    assert_says(
        &width(json!({"block_multiple_of": 0, "block_auto_adjust_ff_dim": true})),
        &["block_multiple_of"],
    );
}

#[test]
fn layers_for_more_than_one_token_and_what_sees_are_left_out() {
    let mut model = qwen3_5();
    model.config =
        json!({"model_type": "qwen3_5", "text_config": model.config, "vision_config": {"depth": 1}});
    let renamed = |name: &String| name.replacen("model.", "model.language_model.", 1);
    model.tensors = model.tensors.iter().map(|(name, tensor)| (renamed(name), tensor.clone())).collect();
    let model = model
        .with_tensor("mtp.layers.0.self_attn.q_proj.weight", Plain::f32(&[32, 8], 0.0))
        .with_tensor("mtp.fc.weight", Plain::f32(&[8, 16], 0.0))
        .with_tensor("model.visual.patch_embed.proj.weight", Plain::f32(&[3, 3], 0.0));
    let source = model.open().unwrap();
    assert_eq!(source.config(), qwen3_5().open().unwrap().config());
    assert_eq!(source.tensors().len(), qwen3_5().tensors.len() + 1, "queries and their gate are two");
}

#[test]
fn mixers_that_are_not_known_or_contradict_each_other_are_refused_by_name() {
    for (field, value, says) in [
        ("layer_types", json!(["linear_attention", "mamba"]), "layer type \"mamba\""),
        ("layer_types", json!(["linear_attention"]), "one for each of 2 layers"),
        ("linear_num_value_heads", json!(0), "value_heads"),
        ("linear_num_key_heads", json!(3), "multiple of key_heads = 3"),
        ("linear_conv_kernel_dim", json!(65), "taps is 65"),
        ("linear_key_head_dim", json!(100_000), "key_dim is 100000"),
        ("hidden_act", json!("gelu"), "hidden_act other than silu"),
        ("attention_bias", json!(true), "attention_bias"),
    ] {
        assert_says(&qwen3_5().with(field, value).refusal(), &[says]);
    }
    let interval = qwen3_5().with("layer_types", Value::Null).with("full_attention_interval", json!(2));
    assert_eq!(interval.open().unwrap().config(), qwen3_5().open().unwrap().config());
    assert_says(&interval.with("full_attention_interval", json!(0)).refusal(), &["full_attention_interval"]);
}

/// Mamba-2 in the first layer, experts beside a shared one in both.
fn granitemoehybrid() -> TinyModel {
    let config = json!({
        "layer_types": ["mamba", "attention"], "mamba_n_heads": 2, "mamba_d_head": 8, "mamba_n_groups": 2,
        "mamba_d_state": 3, "mamba_expand": 2, "mamba_d_conv": 4, "attention_bias": false, "head_dim": 8,
        "time_step_limit": [0.0, null], "num_local_experts": 3, "num_experts_per_tok": 2,
        "shared_intermediate_size": 5, "logits_scaling": 4.0,
    });
    let of_model: Shapes<'_> =
        &[("model.embed_tokens.weight", &[10, 8]), ("model.norm.weight", &[8]), ("lm_head.weight", &[10, 8])];
    let layer: Shapes<'_> = &[
        ("input_layernorm.weight", &[8]),
        ("post_attention_layernorm.weight", &[8]),
        ("self_attn.q_proj.weight", &[16, 8]),
        ("self_attn.k_proj.weight", &[8, 8]),
        ("self_attn.v_proj.weight", &[8, 8]),
        ("self_attn.o_proj.weight", &[8, 16]),
        ("mamba.in_proj.weight", &[16 + 28 + 2, 8]),
        ("mamba.conv1d.weight", &[28, 1, 4]),
        ("mamba.conv1d.bias", &[28]),
        ("mamba.dt_bias", &[2]),
        ("mamba.D", &[2]),
        ("mamba.norm.weight", &[16]),
        ("mamba.out_proj.weight", &[8, 16]),
        ("block_sparse_moe.router.layer.weight", &[3, 8]),
        ("block_sparse_moe.input_linear.weight", &[3, 24, 8]),
        ("block_sparse_moe.output_linear.weight", &[3, 8, 12]),
        ("shared_mlp.input_linear.weight", &[10, 8]),
        ("shared_mlp.output_linear.weight", &[8, 5]),
    ];
    let mut model = model(merged(llama_config("granitemoehybrid"), config), of_model, "model.layers.", layer);
    model.tensors.retain(|name, _| !name.contains(".0.self_attn") && !name.contains(".1.mamba"));
    model.with_tensor("model.layers.0.mamba.A_log", Plain::f32(&[2], -2.0))
}
