//! Configurations of the architectures of `later_samples`: as the hub has them, and those that must be refused by name.

use qsf_format::{ExpertGroups, Failure, GateClip, PositionConfig, QueryGrowth, RouterScore, SharedExperts};
use serde_json::json;

use super::architectures::samples as all_samples;
use super::hub::{read, try_read};
use super::*;
use crate::source::WeightSource;

fn sample(model_type: &str) -> TinyModel {
    all_samples().into_iter().find(|model| model.config["model_type"] == model_type).unwrap()
}

#[test]
fn gpt_oss_20b() {
    let types: Vec<&str> =
        (0..24).map(|i| if i % 2 == 0 { "sliding_attention" } else { "full_attention" }).collect();
    // https://huggingface.co/openai/gpt-oss-20b/blob/main/config.json, abridged
    let config = json!({
        "attention_bias": true, "eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64,
        "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096, "intermediate_size": 2880,
        "layer_types": types, "max_position_embeddings": 131072, "model_type": "gpt_oss",
        "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
        "num_key_value_heads": 8, "num_local_experts": 32, "pad_token_id": 199999,
        "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn"], "quant_method": "mxfp4"},
        "rms_norm_eps": 1e-05, "rope_theta": 150000, "sliding_window": 128, "swiglu_limit": 7.0,
        "rope_scaling": {
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
            "rope_type": "yarn", "truncate": false
        },
        "tie_word_embeddings": false, "vocab_size": 201088
    });
    let model = read(config);
    let experts = model.experts.as_ref().unwrap();
    assert_eq!((experts.count, experts.used, experts.ffn, experts.normalize_weights), (32, 4, 2880, true));
    assert_eq!((model.attention_sinks, model.q_rows()), (true, 4096));
    assert_eq!(model.gate_clip, Some(GateClip { alpha: 1.702, limit: 7.0 }));
    let window = model.sliding_window.as_ref().unwrap();
    assert_eq!((window.size, &window.layers[..3]), (128, &[0, 2, 4][..]));
}

#[test]
fn glm_4_5_air() {
    // https://huggingface.co/zai-org/GLM-4.5-Air/blob/main/config.json, abridged
    let config = json!({
        "attention_bias": true, "first_k_dense_replace": 1, "head_dim": 128, "hidden_act": "silu",
        "hidden_size": 4096, "intermediate_size": 10944, "max_position_embeddings": 131072,
        "model_type": "glm4_moe", "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 128,
        "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 96, "num_experts_per_tok": 8,
        "num_hidden_layers": 46, "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
        "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
        "routed_scaling_factor": 1.0, "tie_word_embeddings": false, "topk_group": 1, "use_qk_norm": false,
        "vocab_size": 151552
    });
    let model = read(config.clone());
    let experts = model.experts.as_ref().unwrap();
    assert_eq!((experts.score, experts.choice_bias, experts.groups), (RouterScore::Sigmoid, true, None));
    assert_eq!((experts.weight_scale, experts.dense_layers.as_slice()), (None, &[0][..]));
    assert_eq!(experts.shared, Some(SharedExperts { ffn: 1408, gated: false }));
    let mut grouped = config;
    (grouped["n_group"], grouped["topk_group"], grouped["routed_scaling_factor"]) =
        (json!(8), json!(4), json!(2.5));
    let experts = read(grouped).experts.unwrap();
    assert_eq!(experts.groups, Some(ExpertGroups { count: 8, used: 4, best: 2 }));
    assert_eq!(experts.weight_scale, Some(2.5));
}

#[test]
fn queries_grow_where_the_rotary_parameters_say_so() {
    let rope = json!({
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 4,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1
    });
    let model = sample("ministral3").with("rope_parameters", rope).open().unwrap();
    assert_eq!(model.config().query_growth, Some(QueryGrowth::rotated(0.1, 4)));
    assert_eq!(sample("ministral3").open().unwrap().config().query_growth, None);
}

fn bitnet(mode: &str) -> Value {
    json!({"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": mode})
}

#[test]
fn falcon_40b_and_phi_3_5_moe() {
    // https://huggingface.co/tiiuae/falcon-40b/blob/main/config.json
    let model = read(json!({
        "alibi": false, "bias": false, "bos_token_id": 11, "eos_token_id": 11, "hidden_size": 8192,
        "layer_norm_epsilon": 1e-05, "model_type": "falcon", "multi_query": true,
        "new_decoder_architecture": true, "num_attention_heads": 128, "num_hidden_layers": 60, "num_kv_heads": 8,
        "parallel_attn": true, "vocab_size": 65024
    }));
    assert_eq!((model.kv_heads, model.head_dim, model.ffn, model.tied_head), (8, 64, 32_768, true));
    assert_eq!(model.residual, qsf_format::Residual::Parallel);
    let factors: Vec<f64> = (0..64).map(f64::from).map(|i| 1.0 + i).collect();
    // https://huggingface.co/microsoft/Phi-3.5-MoE-instruct/blob/main/config.json, other factors
    let config = json!({
        "attention_bias": true, "hidden_act": "silu", "hidden_size": 4096, "input_jitter_noise": 0.01,
        "intermediate_size": 6400, "lm_head_bias": true, "max_position_embeddings": 131072, "model_type": "phimoe",
        "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "num_local_experts": 16, "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "long_factor": factors, "long_mscale": 1.243163121016122, "original_max_position_embeddings": 4096,
            "short_factor": factors, "short_mscale": 1.243163121016122, "type": "longrope"
        },
        "rope_theta": 10000.0, "router_jitter_noise": 0.01, "sliding_window": 131072,
        "tie_word_embeddings": false, "vocab_size": 32064
    });
    let model = read(config);
    let experts = model.experts.as_ref().unwrap();
    assert_eq!((experts.score, experts.margin), (RouterScore::SparseMixer, Some(0.02)));
    assert_eq!((model.sliding_window.is_none(), model.norm.kind), (true, qsf_format::NormKind::LayerNorm));
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    for (model_type, field, value, says) in [
        ("stablelm", "qk_layernorm", json!(true), "qk_layernorm = true"),
        ("ernie4_5_moe", "use_bias", json!(true), "use_bias = true"),
        ("gemma", "use_bidirectional_attention", json!(true), "use_bidirectional_attention = true"),
        ("gpt_oss", "hidden_act", json!("mish"), "hidden_act \"mish\""),
        ("llama4_text", "layer_types", json!(["sliding_attention", "full_attention"]), "sliding_attention"),
        ("falcon", "num_ln_in_parallel_attn", json!(2), "num_ln_in_parallel_attn = 2"),
        ("falcon", "activation", json!("mish"), "activation \"mish\""),
        ("internlm3", "bias", json!(true), "qkv_bias = false with bias = true"),
        ("phimoe", "num_experts_per_tok", json!(1), "num_experts_per_tok = 1"),
        ("bitnet", "quantization_config", bitnet("online"), "quantization_mode \"online\""),
        ("ministral", "layer_types", json!(["chunked_attention", "full_attention"]), "chunked_attention"),
        ("mimo_v2_flash", "mlp_layer_types", json!(["dense", "mlp"]), "feed-forward type \"mlp\""),
        ("kimi_linear", "mlp_layer_types", json!(["dense", "mlp"]), "feed-forward type \"mlp\""),
        ("glm4_moe_lite", "mlp_layer_types", json!(["dense", "mlp"]), "feed-forward type \"mlp\""),
        ("ernie4_5_moe", "moe_norm_min", json!(0.1), "moe_norm_min 0.1"),
        ("mpt", "attn_config", json!({"attn_type": "multiquery_attention"}), "\"multiquery_attention\""),
    ] {
        let error = sample(model_type).with(field, value).open().unwrap_err();
        assert_says(&error.to_string(), &[says]);
        assert_eq!(error.failure(), Failure::Unsupported, "{error}");
    }
}

#[test]
fn numbers_that_contradict_each_other_are_refused_by_name() {
    for (model_type, field, value, says) in [
        ("glm4_moe", "n_group", json!(3), "experts groups count"),
        ("glm4_moe", "num_experts_per_tok", json!(3), "experts used is 3"),
        ("hunyuan_v1_moe", "moe_topk", json!([1, 2]), "moe_topk"),
        ("gpt_oss", "swiglu_limit", json!(0.0), "gate_clip limit"),
        ("granite", "logits_scaling", json!(0.0), "logit_scale"),
        ("olmo", "clip_qkv", json!(-1.0), "qkv_clip"),
        ("cohere2", "sliding_window_pattern", json!(0), "sliding_window_pattern"),
        ("exaone4", "sliding_window_pattern", json!("LLX"), "letters L and G"),
        ("llama4_text", "interleave_moe_layer_step", json!(0), "interleave_moe_layer_step"),
        ("llama4_text", "num_experts_per_tok", json!(3), "experts used is 3"),
        ("llama4_text", "floor_scale", json!(0.5), "floor_scale"),
        ("falcon", "num_attention_heads", json!(3), "hidden_size"),
        ("falcon", "multi_query", json!(false), "query_key_value"),
        ("codegen", "n_embd", json!(10), "n_embd"),
        ("phimoe", "router_jitter_noise", json!(0.0), "experts margin"),
        ("ernie4_5_moe", "moe_layer_interval", json!(0), "moe_layer_interval"),
        ("dots1", "topk_group", json!(2), "topk_group: expected 1"),
        ("glm4_moe_lite", "topk_group", json!(2), "topk_group: expected 1"),
        ("gemma3n_text", "intermediate_size", json!([12]), "intermediate_size: expected one for each of 2"),
        ("gpt_oss", "rope_parameters", json!(null), "rope_parameters: expected how positions are rotated"),
        ("apertus", "rope_scaling", json!(null), "rope_parameters: expected how positions are rotated"),
        ("ministral3", "rope_parameters", json!(null), "rope_parameters: expected how positions are rotated"),
        ("mistral4", "rope_parameters", json!(null), "rope_parameters: expected how positions are rotated"),
    ] {
        let error = sample(model_type).with(field, value).open().unwrap_err();
        assert_says(&error.to_string(), &[says]);
        assert_eq!(error.failure(), Failure::BadInput, "{error}");
    }
}

/// As in the configuration classes of transformers.
#[test]
fn what_is_not_said_is_what_transformers_takes() {
    let experts = |model: TinyModel| model.open().unwrap().config().experts.clone().unwrap();
    assert!(!experts(sample("dots1")).normalize_weights);
    assert!(experts(sample("dots1").with("norm_topk_prob", json!(true))).normalize_weights);
    assert!(experts(sample("glm4_moe")).normalize_weights);
    let bases = |model: TinyModel| match model.open().unwrap().config().position.clone() {
        PositionConfig::Rope { theta, sliding_theta, unrotated_layers, .. } => {
            (theta, sliding_theta, unrotated_layers.len())
        }
        other => panic!("{other:?}"),
    };
    let by_type =
        json!({"full_attention": {"rope_theta": 7e5}, "sliding_attention": {"rope_type": "default"}});
    assert_eq!(bases(sample("gemma3_text").with("rope_parameters", by_type)), (7e5, Some(1e4), 0));
    let rope = json!({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8});
    assert_eq!(bases(sample("ministral3").with("rope_parameters", rope)), (1e4, None, 0));
    assert_eq!(bases(sample("olmo_hybrid")).2, 2, "the base is null");
    assert_eq!(bases(sample("olmo_hybrid").with("rope_parameters", json!(null))), (1e4, None, 0));
}

#[test]
fn layers_that_predict_ahead_are_left_out_as_many_as_there_are() {
    let ahead = |layer: u32| {
        let name = format!("model.layers.{layer}.eh_proj.weight");
        let model = sample("glm4_moe").with("num_nextn_predict_layers", json!(1));
        model.with_tensor(&name, Plain::f32(&[8, 16], 0.0))
    };
    assert!(ahead(2).open().is_ok());
    assert_says(&ahead(3).refusal(), &["model.layers.3.eh_proj.weight"]);
}

#[test]
fn gemma_3n_with_lists_for_all_layers() {
    let (sparse, widths) = ([vec![0.95; 10], vec![0.0; 20]].concat(), vec![8192; 30]);
    let whole = json!({
        "model_type": "gemma3n", "audio_config": {"hidden_size": 1536}, "vision_config": {"hidden_size": 2048},
        "text_config": {
            "activation_sparsity_pattern": sparse, "altup_active_idx": 0,
            "altup_coef_clip": 120.0, "altup_correct_scale": true, "altup_num_inputs": 4, "attention_bias": false,
            "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": 2048, "hidden_size_per_layer_input": 256, "intermediate_size": widths,
            "laurel_rank": 64, "max_position_embeddings": 32768, "model_type": "gemma3n_text",
            "num_attention_heads": 8, "num_hidden_layers": 30, "num_key_value_heads": 2,
            "num_kv_shared_layers": 10, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0,
            "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": 512, "vocab_size": 262400,
            "vocab_size_per_layer_input": 262144
        }
    });
    let model = read(whole.clone());
    assert_eq!((model.kv_heads, model.ffn, model.streams, model.laurel), (2, 8192, Some(4), Some(64)));
    assert_eq!((model.kv_source(29), model.kv_source(28)), (19, 18), "each has that of its type");
    assert_eq!((model.gate_sparsity_of(9), model.gate_sparsity_of(10)), (Some(0.95), None));
    let PositionConfig::Rope { theta, sliding_theta, .. } = model.position else { panic!() };
    assert_eq!((theta, sliding_theta, model.sliding_window.unwrap().layers.len()), (1e6, Some(1e4), 24));
    for (field, value, says) in [
        ("altup_active_idx", json!(1), "altup_active_idx 1 is not"),
        ("altup_num_inputs", json!(1), "altup_num_inputs 1 is not"),
        ("altup_correct_scale", json!(false), "altup_correct_scale = false is not"),
        ("activation_sparsity_pattern", json!([0.5]), "one number for each of 30 layers"),
        ("activation_sparsity_pattern", json!(vec![1.0; 30]), "below 1"),
        ("intermediate_size", json!([vec![8192; 29], vec![4096]].concat()), "several widths"),
    ] {
        let mut other = whole.clone();
        other["text_config"][field] = value;
        assert_says(&try_read(&other).unwrap_err().to_string(), &[says]);
    }
}

#[test]
fn mimo_v2_flash_in_the_spelling_of_the_hub() {
    // https://huggingface.co/XiaomiMiMo/MiMo-V2-Flash/blob/main/config.json, abridged
    let whole = json!({
        "add_full_attention_sink_bias": false, "add_swa_attention_sink_bias": true, "attention_bias": false,
        "attention_value_scale": 0.707, "head_dim": 192, "hidden_size": 4096,
        "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0, 1, 0], "intermediate_size": 16384, "layernorm_epsilon": 1e-05,
        "max_position_embeddings": 262144, "model_type": "mimo_v2_flash", "moe_intermediate_size": 2048,
        "moe_layer_freq": [0, 1, 1, 1, 1, 1, 1, 1], "n_group": 1, "n_routed_experts": 256, "n_shared_experts": null,
        "norm_topk_prob": true, "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 8,
        "num_key_value_heads": 4, "partial_rotary_factor": 0.334, "rope_theta": 5000000,
        "routed_scaling_factor": null, "scoring_func": "sigmoid", "sliding_window": 128, "sliding_window_size": 128,
        "swa_head_dim": 192, "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_rope_theta": 10000,
        "swa_v_head_dim": 128, "tie_word_embeddings": false, "topk_group": 1, "v_head_dim": 128, "vocab_size": 152576
    });
    let model = read(whole.clone());
    let shape = |layer| {
        let shape = model.attention_shape(layer);
        (shape.kv_heads, shape.key_dim, shape.value_dim)
    };
    assert_eq!((shape(0), shape(1)), ((4, 192, 128), (8, 192, 128)));
    let window = model.sliding_window.as_ref().unwrap();
    assert_eq!((window.size, &window.layers[..]), (129, &[1, 2, 3, 4, 6][..]), "with the query's own");
    assert_eq!((model.attention_sinks, model.window_sinks), (true, true));
    assert_eq!(model.value_heads.unwrap().scale, Some(0.707));
    let PositionConfig::Rope { theta, sliding_theta, dims, .. } = model.position else { panic!() };
    assert_eq!((theta, sliding_theta, dims), (5e6, Some(1e4), Some(64)));
    let experts = model.experts.unwrap();
    assert_eq!((experts.count, experts.used, experts.dense_layers, experts.shared), (256, 8, vec![0], None));
    for (field, value, says) in [
        ("swa_head_dim", json!(128), "swa_head_dim 128"),
        ("swa_v_head_dim", json!(64), "swa_v_head_dim 64"),
        ("add_full_attention_sink_bias", json!(true), "add_full_attention_sink_bias = true is not"),
        ("hybrid_layer_pattern", json!([1]), "one for each of 8 layers"),
        ("moe_layer_freq", json!([1]), "one for each of 8 layers"),
        ("n_shared_experts", json!(1), "n_shared_experts"),
        ("scoring_func", json!("softmax"), "scoring_func"),
    ] {
        let mut other = whole.clone();
        other[field] = value;
        assert_says(&try_read(&other).unwrap_err().to_string(), &[says]);
    }
}

#[test]
fn kimi_linear_in_the_spelling_of_the_hub() {
    // https://huggingface.co/moonshotai/Kimi-Linear-48B-A3B-Instruct/blob/main/config.json, abridged to 8 layers
    let whole = json!({
        "bos_token_id": 163584, "eos_token_id": 163586, "first_k_dense_replace": 1, "head_dim": 72,
        "hidden_act": "silu", "hidden_size": 2304, "intermediate_size": 9216, "kv_lora_rank": 512,
        "linear_attn_config": {
            "full_attn_layers": [4, 8], "head_dim": 128, "kda_layers": [1, 2, 3, 5, 6, 7], "num_heads": 32,
            "short_conv_kernel_size": 4
        },
        "mla_use_nope": true, "model_max_length": 1048576, "model_type": "kimi_linear",
        "moe_intermediate_size": 1024, "moe_layer_freq": 1, "moe_renormalize": true,
        "moe_router_activation_func": "sigmoid", "num_attention_heads": 32, "num_expert_group": 1,
        "num_experts": 256, "num_experts_per_token": 8, "num_hidden_layers": 8, "num_key_value_heads": 32,
        "num_nextn_predict_layers": 0, "num_shared_experts": 1, "q_lora_rank": null, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0,
        "routed_scaling_factor": 2.446, "tie_word_embeddings": false, "topk_group": 1, "use_grouped_topk": true,
        "v_head_dim": 128, "vocab_size": 163840
    });
    let model = read(whole.clone());
    let recurrent = model.recurrent.as_ref().unwrap();
    assert_eq!((&recurrent.layers[..], recurrent.taps), (&[0, 1, 2, 4, 5, 6][..], 4));
    assert_eq!((recurrent.channel_rank, recurrent.steps()), (Some(128), 4096));
    assert_eq!((model.head_dim, model.max_positions, model.attention_scale), (192, 1_048_576, None));
    let PositionConfig::Rope { unrotated_layers, .. } = &model.position else { panic!() };
    assert_eq!(unrotated_layers.len(), 8, "nothing is rotated");
    let experts = model.experts.as_ref().unwrap();
    assert_eq!((experts.count, experts.used, &experts.dense_layers[..]), (256, 8, &[0][..]));
    assert_eq!((experts.weight_scale, experts.shared.unwrap().ffn), (Some(2.446), 1024));
    for (field, value, says) in [
        ("mla_use_nope", json!(false), "mla_use_nope = false is not"),
        ("moe_layer_freq", json!(2), "moe_layer_freq 2"),
        ("moe_router_activation_func", json!("softmax"), "moe_router_activation_func"),
        ("hidden_act", json!("gelu"), "hidden_act"),
        ("mlp_layer_types", json!(["dense"]), "one for each of 8 layers"),
        ("linear_attn_config", json!({"kda_layers": [0]}), "counted from 1"),
        ("topk_group", json!(2), "topk_group: expected 1"),
    ] {
        let mut other = whole.clone();
        other[field] = value;
        assert_says(&try_read(&other).unwrap_err().to_string(), &[says]);
    }
}
