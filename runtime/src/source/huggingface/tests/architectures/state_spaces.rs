//! Models whose layers are one part alone: a state space, attention, a feed-forward or experts.

use super::*;
use qsf_format::RecurrentMixer;

pub(super) fn samples() -> Vec<TinyModel> {
    vec![
        mamba2(),
        mamba("mamba"),
        mamba("falcon_mamba"),
        jamba(),
        nemotron_h(json!(["linear_attention", "mlp"])),
        nemotron_h(json!(["attention", "moe"])),
    ]
}

/// 2 heads of 8, 2 groups with states of 3.
const STATE_SPACE: Shapes<'_> = &[
    ("norm.weight", &[8]),
    ("mixer.in_proj.weight", &[16 + 28 + 2, 8]),
    ("mixer.conv1d.weight", &[28, 1, 4]),
    ("mixer.conv1d.bias", &[28]),
    ("mixer.dt_bias", &[2]),
    ("mixer.D", &[2]),
    ("mixer.norm.weight", &[16]),
    ("mixer.out_proj.weight", &[8, 16]),
];

const OF_MODEL: Shapes<'_> = &[
    ("backbone.embeddings.weight", &[10, 8]),
    ("backbone.norm_f.weight", &[8]),
    ("lm_head.weight", &[10, 8]),
];

fn mamba2() -> TinyModel {
    let config = json!({
        "model_type": "mamba2", "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 10, "num_heads": 2,
        "head_dim": 8, "n_groups": 2, "state_size": 3, "conv_kernel": 4, "expand": 2, "use_conv_bias": true,
        "tie_word_embeddings": false, "time_step_limit": [0.0, {"__float__": "Infinity"}],
    });
    model(config, OF_MODEL, "backbone.layers.", STATE_SPACE)
        .with_tensor("backbone.layers.0.mixer.A_log", Plain::f32(&[2], -2.0))
        .with_tensor("backbone.layers.1.mixer.A_log", Plain::f32(&[2], -4.0))
}

/// 16 channels with states of 3, steps of 2 values.
fn mamba(model_type: &str) -> TinyModel {
    let mut config = json!({
        "model_type": model_type, "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 10, "state_size": 3,
        "time_step_rank": 2, "conv_kernel": 4, "expand": 2, "use_conv_bias": true, "tie_word_embeddings": false,
    });
    if model_type == "falcon_mamba" {
        config["mixer_rms_eps"] = json!(1e-4);
    }
    model(config, OF_MODEL, "backbone.layers.", MAMBA1)
        .with_tensor("backbone.layers.0.mixer.A_log", Plain::f32(&[16, 3], -2.0))
        .with_tensor("backbone.layers.1.mixer.A_log", Plain::f32(&[16, 3], -4.0))
}

const MAMBA1: Shapes<'_> = &[
    ("norm.weight", &[8]),
    ("mixer.in_proj.weight", &[32, 8]),
    ("mixer.conv1d.weight", &[16, 1, 4]),
    ("mixer.conv1d.bias", &[16]),
    ("mixer.x_proj.weight", &[8, 16]),
    ("mixer.dt_proj.weight", &[16, 2]),
    ("mixer.dt_proj.bias", &[16]),
    ("mixer.D", &[16]),
    ("mixer.out_proj.weight", &[8, 16]),
];

/// Mamba-1 and a feed-forward, then attention and experts.
fn jamba() -> TinyModel {
    let config = json!({
        "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
        "num_experts": 2, "num_experts_per_tok": 1, "mamba_d_state": 3, "mamba_dt_rank": 2, "mamba_d_conv": 4,
        "mamba_expand": 2, "head_dim": 8,
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
        ("mamba.in_proj.weight", &[32, 8]),
        ("mamba.conv1d.weight", &[16, 1, 4]),
        ("mamba.conv1d.bias", &[16]),
        ("mamba.x_proj.weight", &[8, 16]),
        ("mamba.dt_layernorm.weight", &[2]),
        ("mamba.b_layernorm.weight", &[3]),
        ("mamba.c_layernorm.weight", &[3]),
        ("mamba.dt_proj.weight", &[16, 2]),
        ("mamba.dt_proj.bias", &[16]),
        ("mamba.D", &[16]),
        ("mamba.out_proj.weight", &[8, 16]),
        ("feed_forward.gate_proj.weight", &[12, 8]),
        ("feed_forward.up_proj.weight", &[12, 8]),
        ("feed_forward.down_proj.weight", &[8, 12]),
        ("feed_forward.router.weight", &[2, 8]),
        ("feed_forward.experts.0.gate_proj.weight", &[12, 8]),
        ("feed_forward.experts.0.up_proj.weight", &[12, 8]),
        ("feed_forward.experts.0.down_proj.weight", &[8, 12]),
        ("feed_forward.experts.1.gate_proj.weight", &[12, 8]),
        ("feed_forward.experts.1.up_proj.weight", &[12, 8]),
        ("feed_forward.experts.1.down_proj.weight", &[8, 12]),
    ];
    let mut model = model(merged(llama_config("jamba"), config), of_model, "model.layers.", layer);
    model.tensors.retain(|name, _| {
        let routed = name.contains("router") || name.contains("experts");
        let plain = name.contains("feed_forward") && !routed;
        !(name.contains(".0.self_attn")
            || name.contains(".1.mamba")
            || name.contains("layers.0.") && routed
            || name.contains("layers.1.") && plain)
    });
    model.with_tensor("model.layers.0.mamba.A_log", Plain::f32(&[16, 3], -2.0))
}

#[test]
fn what_mamba_1_does_not_do_is_refused_by_name_and_its_ranks_follow_from_the_width() {
    for (field, value, says) in [
        ("use_bias", json!(true), "use_bias"),
        ("hidden_act", json!("gelu"), "hidden_act other than silu"),
        ("state_size", json!(0), "state is 0"),
        ("time_step_rank", json!(17), "rank is 17"),
        ("use_conv_bias", json!(false), "conv1d.bias"),
        ("expand", json!(3), "in_proj.weight"),
    ] {
        assert_says(&mamba("mamba").with(field, value).refusal(), &[says]);
    }
    assert_says(&jamba().with("attn_layer_offset", json!(2)).refusal(), &["attn_layer_offset"]);
    assert_says(&jamba().with("num_experts", json!(1)).refusal(), &["feed_forward"]);
    let mut model = mamba("mamba").with("time_step_rank", json!("auto"));
    // A sixteenth of 8, rounded up.
    for layer in 0..2 {
        let name = |part: &str| format!("backbone.layers.{layer}.mixer.{part}.weight");
        model = model
            .with_tensor(&name("x_proj"), Plain::f32(&[7, 16], 1.0))
            .with_tensor(&name("dt_proj"), Plain::f32(&[16, 1], 1.0));
    }
    let source = model.open().unwrap();
    let RecurrentMixer::Mamba1 { rank, .. } = source.config().recurrent.as_ref().unwrap().mixer else {
        panic!("another mixer")
    };
    assert_eq!(rank, 1);
}

/// Two layers of these types.
fn nemotron_h(types: Value) -> TinyModel {
    let config = json!({
        "layers_block_type": types, "mamba_num_heads": 2, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 3,
        "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 4,
        "moe_shared_expert_intermediate_size": 5, "mlp_hidden_act": "relu2",
    });
    let config = merged(llama_config("nemotron_h"), config);
    let mut model = model(config, OF_MODEL, "backbone.layers.", &[]);
    let mut first = 1000;
    for (layer, kind) in types.as_array().unwrap().iter().enumerate() {
        let shapes: Shapes<'_> = match kind.as_str().unwrap() {
            "linear_attention" => STATE_SPACE,
            "attention" => &[
                ("norm.weight", &[8]),
                ("mixer.q_proj.weight", &[12, 8]),
                ("mixer.k_proj.weight", &[6, 8]),
                ("mixer.v_proj.weight", &[6, 8]),
                ("mixer.o_proj.weight", &[8, 12]),
            ],
            "mlp" => &[
                ("norm.weight", &[8]),
                ("mixer.up_proj.weight", &[12, 8]),
                ("mixer.down_proj.weight", &[8, 12]),
            ],
            _ => &[
                ("norm.weight", &[8]),
                ("mixer.gate.weight", &[2, 8]),
                ("mixer.gate.e_score_correction_bias", &[2]),
                ("mixer.experts.0.up_proj.weight", &[4, 8]),
                ("mixer.experts.0.down_proj.weight", &[8, 4]),
                ("mixer.experts.1.up_proj.weight", &[4, 8]),
                ("mixer.experts.1.down_proj.weight", &[8, 4]),
                ("mixer.shared_experts.up_proj.weight", &[5, 8]),
                ("mixer.shared_experts.down_proj.weight", &[8, 5]),
            ],
        };
        for (name, shape) in shapes {
            let tensor = Plain::f32(shape, first as f32);
            first += shape.iter().product::<usize>();
            model.tensors.insert(format!("backbone.layers.{layer}.{name}"), tensor);
        }
        if shapes == STATE_SPACE {
            model =
                model.with_tensor(&format!("backbone.layers.{layer}.mixer.A_log"), Plain::f32(&[2], -2.0));
        }
    }
    model
}

#[test]
fn state_spaces_alone_that_contradict_each_other_or_are_not_done_are_refused_by_name() {
    for (field, value, says) in [
        ("num_heads", json!(3), "num_heads"),
        ("expand", json!(3), "num_heads"),
        ("n_groups", json!(4), "multiple of groups = 4"),
        ("state_size", json!(0), "state is 0"),
        ("use_bias", json!(true), "use_bias"),
        ("hidden_act", json!("gelu"), "hidden_act other than silu"),
        ("time_step_limit", json!([0.01, 0.1]), "time_step_limit"),
        ("use_conv_bias", json!(false), "conv1d.bias"),
        ("conv_kernel", json!(5), "conv1d.weight"),
    ] {
        assert_says(&mamba2().with(field, value).refusal(), &[says]);
    }
}

#[test]
fn layers_of_one_part_that_are_not_known_or_contradict_each_other_are_refused_by_name() {
    let experts = || nemotron_h(json!(["attention", "moe"]));
    for (field, value, says) in [
        ("layers_block_type", json!(["attention", "rwkv"]), "layer type \"rwkv\""),
        ("layers_block_type", json!(["attention"]), "num_hidden_layers"),
        ("layers_block_type", json!(["attention", "mlp"]), "mixer.up_proj.weight"),
        ("layers_block_type", Value::Null, "hybrid_override_pattern"),
        ("mamba_hidden_act", json!("gelu"), "mamba_hidden_act other than silu"),
        ("attention_bias", json!(true), "attention_bias"),
        ("moe_latent_size", json!(4), "moe_latent_size"),
        ("mlp_bias", json!(true), "mlp_bias"),
        ("num_experts_per_tok", json!(3), "used is 3"),
        ("topk_group", json!(2), "topk_group: expected 1"),
        ("n_routed_experts", json!(3), "expected shape [3, 8]"),
    ] {
        assert_says(&experts().with(field, value).refusal(), &[says]);
    }
    let without = experts().without_tensor("backbone.layers.1.mixer.gate.e_score_correction_bias");
    assert_says(&without.refusal(), &["e_score_correction_bias"]);
}

#[test]
fn layers_follow_from_a_pattern_as_from_a_list() {
    for (pattern, types) in [("M-", json!(["linear_attention", "mlp"])), ("*E", json!(["attention", "moe"]))]
    {
        let listed = nemotron_h(types);
        let config = listed.open().unwrap().config().clone();
        let by_pattern =
            listed.with("layers_block_type", Value::Null).with("hybrid_override_pattern", json!(pattern));
        assert_eq!(*by_pattern.open().unwrap().config(), config);
        assert_says(
            &by_pattern.with("hybrid_override_pattern", json!("M?")).refusal(),
            &["layer type \"?\""],
        );
    }
}
