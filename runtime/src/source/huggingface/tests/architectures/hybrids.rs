//! Models in which some layers have another mixer than attention.

use super::*;

pub(super) fn samples() -> Vec<TinyModel> {
    vec![qwen3_5(), qwen3_next(), qwen3_5_moe()]
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
