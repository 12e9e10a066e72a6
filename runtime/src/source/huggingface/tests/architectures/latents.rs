//! Models with attention by way of latents, and Gemma 4.

use super::*;

pub(super) fn samples() -> Vec<TinyModel> {
    vec![
        deepseek("deepseek_v2", json!({"num_experts_per_tok": 1, "q_lora_rank": null})),
        deepseek("deepseek_v3", json!({"scoring_func": "sigmoid", "n_group": 1})),
        gemma4(),
        gemma4_experts(),
        gemma3n(),
        kimi_linear(),
        deepseek(
            "mistral4",
            json!({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1,
                "original_max_position_embeddings": 8}}),
        ),
        minicpm3(),
        deepseek("glm4_moe_lite", json!({"mlp_layer_types": ["dense", "sparse"]})),
    ]
}

/// Attention by way of latents; two experts of width 4 and a shared one in the second layer.
pub(super) fn deepseek(model_type: &str, fields: Value) -> TinyModel {
    let config = json!({
        "kv_lora_rank": 5, "q_lora_rank": 7, "qk_nope_head_dim": 2, "qk_rope_head_dim": 4, "v_head_dim": 3,
        "n_routed_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 4, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "head_dim": 4,
    });
    let config = merged(merged(llama_config(model_type), config), fields);
    let has_latent_queries = !config["q_lora_rank"].is_null();
    let queries: Shapes<'_> = match has_latent_queries {
        true => &[
            ("self_attn.q_a_proj.weight", &[7, 8]),
            ("self_attn.q_a_layernorm.weight", &[7]),
            ("self_attn.q_b_proj.weight", &[12, 7]),
        ],
        false => &[("self_attn.q_proj.weight", &[12, 8])],
    };
    let attention: Shapes<'_> = &[
        ("self_attn.kv_a_proj_with_mqa.weight", &[9, 8]),
        ("self_attn.kv_a_layernorm.weight", &[5]),
        ("self_attn.kv_b_proj.weight", &[10, 5]),
        ("self_attn.o_proj.weight", &[8, 6]),
    ];
    let layer = [LLAMA_NORMS, queries, attention, LLAMA_FFN].concat();
    let mut model = model(config, LLAMA_MODEL, "model.layers.", &layer);
    model.tensors.retain(|name, _| !name.contains("layers.1.mlp"));
    let mut first = 10_000;
    let mut add = |name: String, shape: &[usize]| {
        let tensor = Plain::f32(shape, first as f32);
        first += shape.iter().product::<usize>();
        model.tensors.insert(format!("model.layers.1.mlp.{name}"), tensor);
    };
    add("gate.weight".into(), &[2, 8]);
    if !["deepseek_v2", "mistral4"].contains(&model_type) {
        add("gate.e_score_correction_bias".into(), &[2]);
    }
    for part in ["experts.0", "experts.1", "shared_experts"] {
        add(format!("{part}.gate_proj.weight"), &[4, 8]);
        add(format!("{part}.up_proj.weight"), &[4, 8]);
        add(format!("{part}.down_proj.weight"), &[8, 4]);
    }
    model
}

fn minicpm3() -> TinyModel {
    let mut model = deepseek("minicpm3", json!({"scale_emb": 2, "scale_depth": 1.5, "dim_model_base": 4}));
    model.tensors.retain(|name, _| !name.contains("layers.1.mlp"));
    for (i, (name, shape)) in LLAMA_FFN.iter().enumerate() {
        let tensor = Plain::f32(shape, 20_000.0 + 1000.0 * i as f32);
        model.tensors.insert(format!("model.layers.1.{name}"), tensor);
    }
    model
}

/// [`gemma4`] with two experts of width 4 beside each feed-forward.
fn gemma4_experts() -> TinyModel {
    let mut model = gemma4();
    let fields = json!({
        "enable_moe_block": true, "num_experts": 2, "top_k_experts": 1, "moe_intermediate_size": 4,
    });
    model.config = merged(model.config, fields);
    let more: Shapes<'_> = &[
        ("router.proj.weight", &[2, 8]),
        ("router.scale", &[8]),
        ("router.per_expert_scale", &[2]),
        ("experts.gate_up_proj", &[2, 8, 8]),
        ("experts.down_proj", &[2, 8, 4]),
        ("pre_feedforward_layernorm_2.weight", &[8]),
        ("post_feedforward_layernorm_1.weight", &[8]),
        ("post_feedforward_layernorm_2.weight", &[8]),
    ];
    for (i, (name, shape)) in more.iter().enumerate() {
        for layer in 0..2 {
            let tensor = Plain::f32(shape, 50_000.0 + 1000.0 * (2 * i + layer) as f32);
            model.tensors.insert(format!("model.layers.{layer}.{name}"), tensor);
        }
    }
    model
}

/// Three residual streams, residuals of rank 5, and an embedding of 3 for each layer.
pub(super) fn gemma3n() -> TinyModel {
    let of_layer: Shapes<'_> = &[
        ("self_attn.q_norm.weight", &[6]),
        ("self_attn.k_norm.weight", &[6]),
        ("per_layer_input_gate.weight", &[3, 8]),
        ("per_layer_projection.weight", &[8, 3]),
        ("post_per_layer_input_norm.weight", &[8]),
        ("altup.modality_router.weight", &[3, 8]),
        ("altup.router_norm.weight", &[8]),
        ("altup.prediction_coefs.weight", &[9, 3]),
        ("altup.correction_coefs.weight", &[3, 3]),
        ("altup.correct_output_scale", &[8]),
        ("laurel.linear_left.weight", &[5, 8]),
        ("laurel.linear_right.weight", &[8, 5]),
        ("laurel.post_laurel_norm.weight", &[8]),
    ];
    let of_model: Shapes<'_> = &[
        ("model.embed_tokens_per_layer.weight", &[10, 6]),
        ("model.per_layer_model_projection.weight", &[6, 8]),
        ("model.per_layer_projection_norm.weight", &[3]),
        ("model.altup_projections.0.weight", &[8, 8]),
        ("model.altup_projections.1.weight", &[8, 8]),
        ("model.altup_unembed_projections.0.weight", &[8, 8]),
        ("model.altup_unembed_projections.1.weight", &[8, 8]),
    ];
    let mut model = gemma("gemma3n_text", of_layer);
    for (i, (name, shape)) in of_model.iter().enumerate() {
        model.tensors.insert((*name).to_owned(), Plain::f32(shape, 70_000.0 + 1000.0 * i as f32));
    }
    let fields = json!({
        "hidden_size_per_layer_input": 3, "vocab_size_per_layer_input": 10, "altup_num_inputs": 3,
        "laurel_rank": 5, "num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.95, 0.0],
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4,
    });
    TinyModel { config: merged(model.config, fields), tensors: model.tensors }
}

/// A layer with a window and one without, of the same heads, and an embedding of 3 for each.
pub(super) fn gemma4() -> TinyModel {
    let more: Shapes<'_> = &[
        ("self_attn.q_norm.weight", &[6]),
        ("self_attn.k_norm.weight", &[6]),
        ("per_layer_input_gate.weight", &[3, 8]),
        ("per_layer_projection.weight", &[8, 3]),
        ("post_per_layer_input_norm.weight", &[8]),
        ("layer_scalar", &[1]),
    ];
    let of_model: Shapes<'_> = &[
        ("model.embed_tokens_per_layer.weight", &[10, 6]),
        ("model.per_layer_model_projection.weight", &[6, 8]),
        ("model.per_layer_projection_norm.weight", &[3]),
    ];
    let mut model = gemma("gemma4_text", more);
    for (i, (name, shape)) in of_model.iter().enumerate() {
        model.tensors.insert((*name).to_owned(), Plain::f32(shape, 30_000.0 + 1000.0 * i as f32));
    }
    let fields = json!({
        "global_head_dim": 6, "hidden_size_per_layer_input": 3, "vocab_size_per_layer_input": 10,
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4,
    });
    TinyModel { config: merged(model.config, fields), tensors: model.tensors }
}

/// A delta rule of two heads of 3 in the first layer, attention by way of latents in the second.
pub(super) fn kimi_linear() -> TinyModel {
    let fields = json!({
        "layer_types": ["linear_attention", "full_attention"], "mlp_layer_types": ["dense", "dense"],
        "linear_num_heads": 2, "linear_head_dim": 3, "linear_conv_kernel_dim": 4, "q_lora_rank": null,
        "kv_lora_rank": 5, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 3,
    });
    let config = merged(llama_config("kimi_linear"), fields);
    let mut model = model(config, LLAMA_MODEL, "model.layers.", &[LLAMA_NORMS, LLAMA_FFN].concat());
    let delta: Shapes<'_> = &[
        ("q_proj.weight", &[6, 8]),
        ("k_proj.weight", &[6, 8]),
        ("v_proj.weight", &[6, 8]),
        ("q_conv1d.weight", &[6, 1, 4]),
        ("k_conv1d.weight", &[6, 1, 4]),
        ("v_conv1d.weight", &[6, 1, 4]),
        ("f_a_proj.weight", &[3, 8]),
        ("f_b_proj.weight", &[6, 3]),
        ("dt_bias", &[6]),
        ("b_proj.weight", &[2, 8]),
        ("g_a_proj.weight", &[3, 8]),
        ("g_b_proj.weight", &[6, 3]),
        ("o_norm.weight", &[3]),
        ("o_proj.weight", &[8, 6]),
    ];
    let latents: Shapes<'_> = &[
        ("q_proj.weight", &[12, 8]),
        ("kv_a_proj_with_mqa.weight", &[7, 8]),
        ("kv_a_layernorm.weight", &[5]),
        ("kv_b_proj.weight", &[14, 5]),
        ("o_proj.weight", &[8, 6]),
    ];
    for (layer, shapes) in [delta, latents].into_iter().enumerate() {
        for (i, (name, shape)) in shapes.iter().enumerate() {
            let tensor = Plain::f32(shape, 90_000.0 + 1000.0 * (20 * layer + i) as f32);
            model.tensors.insert(format!("model.layers.{layer}.self_attn.{name}"), tensor);
        }
    }
    // Small enough for e^v to be a number.
    model.with_tensor("model.layers.0.self_attn.A_log", Plain::f32(&[1, 1, 2, 1], -2.0))
}
