//! Configurations as repositories on the hub have them, of all versions of transformers: the fields that matter.

use qsf_format::{
    Activation, ModelConfig, NormPlacement, PositionConfig, Residual, RopeScaling, SlidingWindow,
};
use serde_json::json;

use super::*;
use crate::source::huggingface::config::ConfigFiles;
use crate::source::huggingface::names::Names;
use crate::source::mapping::{TensorStore, no_such_tensor};
use crate::tensor::{StoredType, Tensor};

/// A model without tensors: all must follow from the fields.
#[derive(Debug)]
struct Nothing;

impl TensorStore for Nothing {
    fn file_of(&self, _: &str) -> &Path {
        Path::new("nothing")
    }

    fn describe(&self, _: &str) -> Option<(&[usize], StoredType)> {
        None
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::empty())
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        Err(no_such_tensor(Path::new("nothing"), name))
    }
}

pub(super) fn try_read(config: &Value) -> Result<ModelConfig> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    let files = ConfigFiles::read(&path, None)?;
    let architecture = files.architecture()?.unwrap();
    let names = Names::find(architecture, &Nothing, dir.path())?;
    Ok(files.model(architecture, &names, &Nothing)?.model)
}

pub(super) fn read(config: Value) -> ModelConfig {
    try_read(&config).unwrap()
}

fn heads(model: &ModelConfig) -> [u32; 3] {
    [model.heads, model.kv_heads, model.head_dim]
}

fn rope(model: &ModelConfig) -> (f32, Option<RopeScaling>, Option<u32>) {
    match &model.position {
        PositionConfig::Rope { theta, scaling, dims, .. } => (*theta, scaling.clone(), *dims),
        other => panic!("{other:?}"),
    }
}

#[test]
fn llama_1_and_3_1() {
    let first = read(json!({
        "architectures": ["LLaMAForCausalLM"], "bos_token_id": 0, "eos_token_id": 1, "hidden_act": "silu",
        "hidden_size": 4096, "intermediate_size": 11008, "initializer_range": 0.02, "max_sequence_length": 2048,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "pad_token_id": -1,
        "rms_norm_eps": 1e-06, "torch_dtype": "float16", "transformers_version": "4.27.0.dev0",
        "use_cache": true, "vocab_size": 32000
    }));
    assert_eq!((heads(&first), first.max_positions, first.tied_head), ([32, 32, 128], 2048, false));
    assert_eq!(rope(&first), (10_000.0, None, None));
    let third = read(json!({
        "attention_bias": false, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009],
        "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192, "rope_type": "llama3"},
        "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256
    }));
    assert_eq!((heads(&third), third.max_positions), ([32, 8, 128], 131_072));
    assert_eq!(third.stop_tokens, [128_001, 128_008, 128_009]);
    let scaling = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_positions: 8192,
    };
    assert_eq!(rope(&third), (500_000.0, Some(scaling), None));
}

fn mistral(window: Value) -> Value {
    json!({
        "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0, "sliding_window": window, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16", "vocab_size": 32000
    })
}

#[test]
fn mistral_7b_with_a_window_and_without() {
    let first = read(mistral(json!(4096)));
    let layers = (0..32).collect();
    assert_eq!(first.sliding_window, Some(SlidingWindow { size: 4096, layers }));
    assert_eq!(read(mistral(Value::Null)).sliding_window, None, "v0.3: null");
    assert_eq!(read(mistral(json!(32_768))).sliding_window, None, "as long as all positions");
    assert_eq!(read(mistral(json!(32_767))).sliding_window.unwrap().size, 32_767);
}

#[test]
fn mixtral_8x7b() {
    let model = read(json!({
        "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
        "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "num_local_experts": 8, "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
        "router_aux_loss_coef": 0.02, "sliding_window": null, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16", "vocab_size": 32000
    }));
    let experts = model.experts.as_ref().unwrap();
    assert_eq!((experts.count, experts.used, experts.ffn, experts.normalize_weights), (8, 2, 14_336, true));
    assert_eq!((rope(&model).0, model.sliding_window.is_none()), (1e6, true));
}

#[test]
fn phi_2() {
    let model = read(json!({
        "attention_dropout": 0.0, "bos_token_id": 50256, "embd_pdrop": 0.0, "eos_token_id": 50256,
        "hidden_act": "gelu_new", "hidden_size": 2560, "intermediate_size": 10240, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048, "model_type": "phi", "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 32, "partial_rotary_factor": 0.4,
        "qk_layernorm": false, "resid_pdrop": 0.1, "rope_scaling": null, "rope_theta": 10000.0,
        "tie_word_embeddings": false, "torch_dtype": "float16", "vocab_size": 51200
    }));
    assert_eq!((heads(&model), rope(&model)), ([32, 32, 80], (10_000.0, None, Some(32))));
    assert_eq!((model.residual, model.activation), (Residual::ParallelOneNorm, Activation::GeluTanh));
    let mut part = json!({
        "model_type": "phi", "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1,
        "intermediate_size": 8, "vocab_size": 8, "max_position_embeddings": 8,
    });
    assert_eq!(rope(&read(part.clone())).2, Some(4), "half without the field");
    for (value, says) in
        [(0.2, "rotated dims are 1"), (1.5, "rotated dims are 12"), (-1.0, "rotated dims are 0")]
    {
        part["partial_rotary_factor"] = json!(value);
        assert_says(&try_read(&part).unwrap_err().to_string(), &[says]);
    }
}

fn phi_3(kind: &str) -> Value {
    json!({
        "bos_token_id": 1, "eos_token_id": 32000, "hidden_act": "silu", "hidden_size": 3072,
        "intermediate_size": 8192, "max_position_embeddings": 131072, "model_type": "phi3",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
        "original_max_position_embeddings": 4096, "pad_token_id": 32000, "rms_norm_eps": 1e-05,
        "rope_scaling": {"long_factor": vec![2.5; 48], "short_factor": vec![1.05; 48], "type": kind},
        "rope_theta": 10000.0, "sliding_window": 262144, "tie_word_embeddings": false, "vocab_size": 32064
    })
}

#[test]
fn phi_3_mini_128k_under_all_names_of_its_scaling() {
    for kind in ["longrope", "su", "yarn"] {
        let model = read(phi_3(kind));
        let (_, scaling, dims) = rope(&model);
        let Some(RopeScaling::LongRope { original_positions, short_factors, long_factors, attention_factor }) =
            scaling
        else {
            panic!("{kind}");
        };
        assert_eq!((original_positions, short_factors[0], long_factors[47], dims), (4096, 1.05, 2.5, None));
        // sqrt(1 + ln 32 / ln 4096), as transformers computes it: 5/12 exactly, for both are powers of two.
        assert_eq!(attention_factor, (17.0f64 / 12.0).sqrt() as f32);
        assert_eq!((model.max_positions, model.sliding_window), (131_072, None));
    }
    let mini = json!({"partial_rotary_factor": 0.75, "rope_scaling": {
        "type": "longrope", "long_factor": vec![2.0; 36], "short_factor": vec![1.0; 36]}});
    let mut phi_4 = phi_3("longrope");
    for (name, value) in mini.as_object().unwrap() {
        phi_4[name] = value.clone();
    }
    assert_eq!(rope(&read(phi_4)).2, Some(72));
    let mut short = phi_3("longrope");
    (short["rope_scaling"], short["max_position_embeddings"], short["sliding_window"]) =
        (Value::Null, json!(4096), json!(2047));
    let model = read(short);
    assert_eq!((rope(&model).1, model.sliding_window.unwrap().size), (None, 2047));
}

fn qwen_2_5() -> Value {
    json!({
        "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896,
        "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21,
        "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 8192, "tie_word_embeddings": true,
        "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 151936
    })
}

#[test]
fn qwen_2_5_with_its_window_in_use_or_not_and_with_yarn() {
    let model = read(qwen_2_5());
    assert_eq!((heads(&model), model.tied_head, model.sliding_window), ([14, 2, 64], true, None));
    let mut windowed = qwen_2_5();
    windowed["use_sliding_window"] = json!(true);
    let window = read(windowed.clone()).sliding_window;
    assert_eq!(window, Some(SlidingWindow { size: 8192, layers: vec![21, 22, 23] }));
    let mut types = vec!["full_attention"; 24];
    types[3] = "sliding_attention";
    windowed["layer_types"] = json!(types);
    assert_eq!(read(windowed.clone()).sliding_window.unwrap().layers, [3]);
    windowed["layer_types"] = json!(types[..23]);
    assert_says(&try_read(&windowed).unwrap_err().to_string(), &["layer_types", "24 layers, found 23"]);
    windowed["layer_types"] = json!(["chunked_attention"].repeat(24));
    assert_says(&try_read(&windowed).unwrap_err().to_string(), &["layer type \"chunked_attention\""]);

    let mut long = qwen_2_5();
    long["rope_scaling"] = json!({"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"});
    let model = read(long.clone());
    let yarn = |attention_factor: f64, truncate| RopeScaling::Yarn {
        factor: 4.0,
        original_positions: 32_768,
        beta_fast: 32.0,
        beta_slow: 1.0,
        attention_factor: attention_factor as f32,
        truncate,
    };
    let ln4 = 4f64.ln();
    assert_eq!(rope(&model).1, Some(yarn(0.1 * ln4 + 1.0, true)));
    assert_eq!(model.max_positions, 131_072);
    long["rope_scaling"]["mscale"] = json!(0.707);
    long["rope_scaling"]["mscale_all_dim"] = json!(1.0);
    long["rope_scaling"]["truncate"] = json!(false);
    long["rope_scaling"]["beta_fast"] = Value::Null;
    let both = (0.0707 * ln4 + 1.0) / (0.1 * ln4 + 1.0);
    assert_eq!(rope(&read(long.clone())).1, Some(yarn(both, false)));
    long["rope_scaling"]["attention_factor"] = json!(1.5);
    assert_eq!(rope(&read(long)).1, Some(yarn(1.5, false)));
}

#[test]
fn qwen_3_with_experts() {
    let config = json!({
        "attention_bias": false, "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645,
        "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144,
        "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
        "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
        "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
        "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
        "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936
    });
    let model = read(config.clone());
    let experts = model.experts.as_ref().unwrap();
    assert_eq!((experts.count, experts.used, experts.ffn, model.ffn), (128, 8, 768, 6144));
    assert_eq!((experts.dense_layers.len(), heads(&model)), (0, [32, 4, 128]));
    let mut sparse = config;
    (sparse["decoder_sparse_step"], sparse["mlp_only_layers"]) = (json!(2), json!([1, 99]));
    let dense = read(sparse).experts.unwrap().dense_layers;
    assert_eq!((dense.len(), &dense[..4]), (25, &[0, 1, 2, 4][..]));
}

#[test]
fn gemma_2_2b_and_27b() {
    let config = json!({
        "attention_bias": false, "attn_logit_softcapping": 50.0, "bos_token_id": 2, "eos_token_id": 1,
        "cache_implementation": "hybrid", "final_logit_softcapping": 30.0, "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
        "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2",
        "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4, "pad_token_id": 0,
        "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
        "torch_dtype": "float32", "vocab_size": 256000
    });
    let model = read(config.clone());
    assert_eq!((heads(&model), model.tied_head), ([8, 4, 256], true));
    assert_eq!((model.attention_softcap, model.logit_softcap), (Some(50.0), Some(30.0)));
    assert_eq!((model.attention_scale, model.embedding_scale), (None, Some(48.0)));
    assert_eq!(model.norm.placement, NormPlacement::PreAndPost);
    let even = (0..26).filter(|layer| layer % 2 == 0).collect();
    assert_eq!(model.sliding_window, Some(SlidingWindow { size: 4096, layers: even }));
    let mut large = config;
    large["query_pre_attn_scalar"] = json!(144);
    large["attn_logit_softcapping"] = Value::Null;
    let model = read(large.clone());
    assert_eq!((model.attention_scale, model.attention_softcap), (Some(1.0 / 12.0), None));
    large["use_bidirectional_attention"] = json!(true);
    assert_says(&try_read(&large).unwrap_err().to_string(), &["use_bidirectional_attention = true is not"]);
}

#[test]
fn gemma_3_1b_and_a_4b_that_says_little() {
    let small = read(json!({
        "attention_bias": false, "attn_logit_softcapping": null, "bos_token_id": 2, "eos_token_id": [1, 106],
        "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 1152, "intermediate_size": 6912, "max_position_embeddings": 32768,
        "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 26,
        "num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512,
        "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "vocab_size": 262144
    }));
    let PositionConfig::Rope { theta, sliding_theta, .. } = small.position else { panic!() };
    assert_eq!((theta, sliding_theta, small.stop_tokens), (1e6, Some(1e4), vec![1, 106]));
    let window = small.sliding_window.unwrap();
    assert_eq!((window.size, window.layers.len()), (512, 22));
    assert!([5, 11, 17, 23].iter().all(|layer| !window.layers.contains(layer)));

    // Parts of larger models are written without what is as the class has it.
    let part = read(json!({
        "boi_token_index": 255999, "eos_token_id": [1, 106], "image_token_index": 262144,
        "mm_tokens_per_image": 256, "model_type": "gemma3", "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
            "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 1024},
        "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152}
    }));
    assert_eq!((heads(&part), part.vocab, part.tied_head), ([8, 4, 256], 262_208, true));
    let PositionConfig::Rope { theta, scaling, sliding_theta, .. } = part.position else { panic!() };
    assert_eq!((theta, sliding_theta), (1e6, Some(1e4)));
    assert_eq!(scaling, Some(RopeScaling::Linear { factor: 8.0 }));
    assert_eq!((part.sliding_window.unwrap().layers.len(), part.architecture.as_str()), (29, "gemma3_text"));
}

#[test]
fn rotary_parameters_by_type_of_layer_go_before_those_outside() {
    let config = |parameters: Value| {
        json!({
            "model_type": "gemma3_text", "hidden_size": 16, "num_attention_heads": 2, "head_dim": 8,
            "num_key_value_heads": 1, "intermediate_size": 8, "num_hidden_layers": 6, "vocab_size": 8,
            "max_position_embeddings": 64, "sliding_window": 128, "rope_parameters": parameters,
        })
    };
    let read_both = |parameters| {
        let model = read(config(parameters));
        assert_eq!(model.sliding_window.map(|window| window.size), Some(128), "kept for its rotary base");
        let PositionConfig::Rope { theta, scaling, sliding_theta, .. } = model.position else { panic!() };
        (theta, scaling, sliding_theta)
    };
    let sliding = json!({"rope_theta": 5e3, "rope_type": "default"});
    let full = json!({"rope_theta": 7e5, "rope_type": "linear", "factor": 2.0});
    assert_eq!(
        read_both(json!({"full_attention": full, "sliding_attention": sliding})),
        (7e5, Some(RopeScaling::Linear { factor: 2.0 }), Some(5e3))
    );
    let same = json!({"full_attention": sliding, "sliding_attention": sliding});
    assert_eq!(read_both(same), (5e3, None, None));
    let message =
        try_read(&config(json!({"full_attention": sliding, "sliding_attention": full}))).unwrap_err();
    assert_says(&message.to_string(), &["sliding layers", "is not supported"]);
}

#[test]
fn pythia_70m_and_a_gpt_neox_without_parallel_residual() {
    let config = json!({
        "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu", "hidden_size": 512,
        "intermediate_size": 2048, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
        "model_type": "gpt_neox", "num_attention_heads": 8, "num_hidden_layers": 6, "rotary_emb_base": 10000,
        "rotary_pct": 0.25, "tie_word_embeddings": false, "torch_dtype": "float16",
        "use_parallel_residual": true, "vocab_size": 50304
    });
    let model = read(config.clone());
    assert_eq!((heads(&model), rope(&model)), ([8, 8, 64], (10_000.0, None, Some(16))));
    assert_eq!((model.residual, model.activation), (Residual::Parallel, Activation::GeluErf));
    let mut other = config;
    (other["use_parallel_residual"], other["rotary_pct"], other["rotary_emb_base"]) =
        (json!(false), json!(1.0), json!(40_000));
    let model = read(other);
    assert_eq!((model.residual, rope(&model)), (Residual::Sequential, (40_000.0, None, None)));
}

#[test]
fn smollm3_3b_by_list_and_by_interval() {
    let mut config = json!({
        "attention_bias": false, "bos_token_id": 128000, "eos_token_id": 128012, "hidden_act": "silu",
        "hidden_size": 2048, "intermediate_size": 11008, "max_position_embeddings": 65536,
        "max_window_layers": 28, "mlp_bias": false, "model_type": "smollm3", "no_rope_layer_interval": 4,
        "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0], "num_attention_heads": 16, "num_hidden_layers": 8,
        "num_key_value_heads": 4, "pad_token_id": 128004, "pretraining_tp": 2, "rms_norm_eps": 1e-06,
        "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null, "torch_dtype": "bfloat16",
        "use_sliding_window": false, "vocab_size": 128256
    });
    let unrotated = |config: &Value| match read(config.clone()).position {
        PositionConfig::Rope { unrotated_layers, theta, .. } => (unrotated_layers, theta),
        other => panic!("{other:?}"),
    };
    assert_eq!(unrotated(&config), (vec![3, 7], 5e6));
    assert!(read(config.clone()).tied_head);
    config["no_rope_layers"] = Value::Null;
    assert_eq!(unrotated(&config), (vec![3, 7], 5e6));
    for (field, value) in [("no_rope_layer_interval", json!(0)), ("no_rope_layers", json!([1, 0]))] {
        let mut wrong = config.clone();
        wrong[field] = value;
        assert_says(&try_read(&wrong).unwrap_err().to_string(), &[field, "expected"]);
    }
}

#[test]
fn olmo_2_7b() {
    let model = read(json!({
        "attention_bias": false, "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "olmo2",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pad_token_id": 100277,
        "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000, "tie_word_embeddings": false,
        "vocab_size": 100352
    }));
    assert_eq!((model.norm.placement, rope(&model).0, model.bos), (NormPlacement::Post, 500_000.0, None));
}

#[test]
fn opt_125m_and_the_variants_that_are_not_done() {
    let config = json!({
        "_remove_final_layer_norm": false, "activation_function": "relu", "bos_token_id": 2,
        "do_layer_norm_before": true, "eos_token_id": 2, "ffn_dim": 3072, "hidden_size": 768,
        "max_position_embeddings": 2048, "model_type": "opt", "num_attention_heads": 12,
        "num_hidden_layers": 12, "pad_token_id": 1, "prefix": "</s>", "torch_dtype": "float16",
        "vocab_size": 50272, "word_embed_proj_dim": 768
    });
    let model = read(config.clone());
    assert_eq!((heads(&model), model.max_positions, model.tied_head), ([12, 12, 64], 2048, true));
    assert_eq!((model.activation, model.position), (Activation::Relu, PositionConfig::Learned {}));
    for (field, value) in [
        ("do_layer_norm_before", json!(false)),
        ("word_embed_proj_dim", json!(512)),
        ("_remove_final_layer_norm", json!(true)),
    ] {
        let mut other = config.clone();
        other[field] = value;
        assert_says(&try_read(&other).unwrap_err().to_string(), &[field, "is not supported"]);
    }
}

#[test]
fn bloom_560m() {
    let model = read(json!({
        "apply_residual_connection_post_layernorm": false, "attention_softmax_in_fp32": true,
        "bias_dropout_fusion": true, "bos_token_id": 1, "eos_token_id": 2, "layer_norm_epsilon": 1e-05,
        "masked_softmax_fusion": true, "model_type": "bloom", "n_embed": 1024, "n_inner": null, "n_layer": 24,
        "num_attention_heads": 16, "offset_alibi": 100, "pad_token_id": 3, "pretraining_tp": 1,
        "seq_length": 2048, "skip_bias_add": true, "vocab_size": 250880
    }));
    assert_eq!((model.hidden, model.ffn, heads(&model)), (1024, 4096, [16, 16, 64]));
    assert_eq!(
        (model.position, model.embedding_norm, model.tied_head),
        (PositionConfig::alibi(), true, true)
    );
}

#[test]
fn a_part_of_a_larger_model_may_leave_out_what_a_whole_one_must_say() {
    let part = read(json!({
        "model_type": "llava", "vision_config": {}, "text_config": {
            "max_position_embeddings": 4096, "model_type": "llama", "rms_norm_eps": 1e-05, "vocab_size": 32064}
    }));
    assert_eq!((part.layers, part.hidden, part.vocab, heads(&part)), (32, 4096, 32_064, [32, 32, 128]));
    let whole = json!({"model_type": "llama", "vocab_size": 32_064});
    assert_says(&try_read(&whole).unwrap_err().to_string(), &["expected an integer, found no such field"]);
}

#[test]
fn dynamic_scaling_begins_beyond_the_positions_of_the_configuration() {
    let mut config = mistral(Value::Null);
    config["rope_scaling"] = json!({"type": "dynamic", "factor": 2.0});
    let model = read(config);
    let scaling = RopeScaling::Dynamic { factor: 2.0, original_positions: 32_768 };
    assert_eq!((rope(&model).1, model.max_positions), (Some(scaling), 65_536));
}
