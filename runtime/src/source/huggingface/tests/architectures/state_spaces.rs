//! Models whose layers are one part alone: a state space, attention, a feed-forward or experts.

use super::*;

pub(super) fn samples() -> Vec<TinyModel> {
    vec![mamba2(), nemotron_h(json!(["linear_attention", "mlp"])), nemotron_h(json!(["attention", "moe"]))]
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
