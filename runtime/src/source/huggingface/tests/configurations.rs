//! What the spellings of `config.json` become.

use std::fs;

use qsf_format::{Activation, Failure, ModelConfig, NormKind, PositionConfig, RopeScaling};
use serde_json::{Value, json};

use super::*;
use crate::source::WeightSource;

fn config_of(model: TinyModel) -> ModelConfig {
    model.open().unwrap().config().clone()
}

fn rope_of(fields: &[(&str, Value)]) -> Result<PositionConfig> {
    let mut model = TinyModel::llama();
    for (name, value) in fields {
        model.config[*name] = value.clone();
    }
    Ok(model.open()?.config().position.clone())
}

#[test]
fn a_llama_configuration_becomes_the_model_it_describes() {
    let config = config_of(TinyModel::llama());
    assert_eq!((config.hidden, config.heads, config.kv_heads, config.head_dim), (8, 2, 1, 4));
    assert_eq!((config.layers, config.ffn, config.vocab, config.max_positions), (1, 12, 10, 16));
    assert_eq!((config.norm.kind, config.norm.epsilon), (NormKind::RmsNorm, 1e-5));
    assert_eq!((config.activation, config.gated_ffn, config.tied_head), (Activation::Silu, true, true));
    assert_eq!((config.bos, config.pad, config.stop_tokens.as_slice()), (Some(1), None, &[2][..]));
    assert_eq!(config.position, PositionConfig::rope(10_000.0, None));
}

#[test]
fn a_gpt2_configuration_becomes_the_model_it_describes() {
    let config = config_of(TinyModel::gpt2("transformer."));
    assert_eq!((config.hidden, config.heads, config.kv_heads, config.head_dim), (4, 2, 2, 2));
    assert_eq!((config.ffn, config.max_positions, config.tied_head), (16, 6, true));
    assert_eq!((config.norm.kind, config.activation), (NormKind::LayerNorm, Activation::GeluTanh));
    assert_eq!((config.position, config.gated_ffn), (PositionConfig::Learned {}, false));
    let old = TinyModel::gpt2("").with("n_positions", Value::Null).with("n_ctx", json!(6));
    assert_eq!(config_of(old).max_positions, 6);
}

#[test]
fn rotary_positions_are_the_same_in_the_old_and_the_new_spelling() {
    let llama3 = json!({"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                        "original_max_position_embeddings": 64});
    let named = |key: &str, kind: &str, theta: Option<f64>, rest: &Value| {
        let mut rope = rest.clone();
        rope[key] = json!(kind);
        if let Some(theta) = theta {
            rope["rope_theta"] = json!(theta);
        }
        rope
    };
    let theta = ("rope_theta", json!(500_000.0));
    let expected = PositionConfig::rope(
        500_000.0,
        Some(RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_positions: 64,
        }),
    );
    for fields in [
        vec![theta.clone(), ("rope_scaling", named("rope_type", "llama3", None, &llama3))],
        vec![theta.clone(), ("rope_scaling", named("type", "llama3", None, &llama3))],
        vec![("rope_parameters", named("rope_type", "llama3", Some(5e5), &llama3))],
        vec![
            theta.clone(),
            ("rope_parameters", named("rope_type", "llama3", Some(5e5), &llama3)),
            ("rope_scaling", named("rope_type", "llama3", None, &llama3)),
        ],
    ] {
        assert_eq!(rope_of(&fields).unwrap(), expected, "{fields:?}");
    }
    let linear = PositionConfig::rope(500_000.0, Some(RopeScaling::Linear { factor: 2.0 }));
    let scaling = json!({"type": "linear", "factor": 2});
    assert_eq!(rope_of(&[theta.clone(), ("rope_scaling", scaling)]).unwrap(), linear);
    let none = PositionConfig::rope(500_000.0, None);
    for scaling in [Value::Null, json!({"rope_type": "default"})] {
        assert_eq!(rope_of(&[theta.clone(), ("rope_scaling", scaling)]).unwrap(), none);
    }
}

#[test]
fn rotary_variants_that_would_change_the_result_are_refused() {
    for (field, value, says) in [
        (
            "rope_scaling",
            json!({"type": "ntk", "factor": 2.0}),
            "rotary scaling \"ntk\" is not supported; supported: default, linear, dynamic, llama3, yarn",
        ),
        (
            "rope_parameters",
            json!({"chunked_attention": {"rope_theta": 1.0}}),
            "rotary parameters of \"chunked_attention\" is not supported",
        ),
        ("rope_parameters", json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor 0.5 of this"),
        ("partial_rotary_factor", json!(0.25), "heads are rotated as a whole"),
        ("rope_scaling", json!({"type": "dynamic", "factor": 0.5}), "rope scaling factor is 0.5"),
        (
            "rope_scaling",
            json!({"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 0}),
            "rope original_positions is 0",
        ),
        (
            "rope_scaling",
            json!({"type": "longrope", "short_factor": [1.0], "long_factor": [1.0, 2.0]}),
            "rope short_factors are 1, expected 2",
        ),
        (
            "rope_scaling",
            json!({"type": "longrope", "long_factor": [1.0, 2.0]}),
            "short_factor: expected a list",
        ),
        (
            "rope_scaling",
            json!({"type": "longrope", "short_factor": [1.0, "2"], "long_factor": [1.0, 2.0]}),
            "short_factor: expected a list of numbers, found a list of 2",
        ),
        ("rope_scaling", json!({"factor": 2.0}), "rope_scaling.rope_type: expected a string"),
        (
            "rope_scaling",
            json!({"type": "linear"}),
            "rope_scaling.factor: expected a number, found no such field",
        ),
        ("rope_scaling", json!({"type": "linear", "factor": 0}), "rope scaling factor is 0"),
        ("rope_scaling", json!("linear"), "rope_scaling: expected an object, found the string"),
        ("rope_theta", json!(-1.0), "rope theta is -1"),
    ] {
        assert_says(&rope_of(&[(field, value)]).unwrap_err().to_string(), &["config.json", says]);
    }
    let both = [
        ("rope_parameters", json!({"rope_type": "default", "rope_theta": 1e4})),
        ("rope_scaling", json!({"type": "linear", "factor": 2.0})),
    ];
    assert_says(&rope_of(&both).unwrap_err().to_string(), &["what rope_parameters says"]);
}

#[test]
fn missing_head_counts_and_widths_follow_from_the_others() {
    let model = TinyModel::llama()
        .with("num_key_value_heads", Value::Null)
        .with_tensor("model.layers.0.self_attn.k_proj.weight", Plain::f32(&[8, 8], 0.0))
        .with_tensor("model.layers.0.self_attn.v_proj.weight", Plain::f32(&[8, 8], 0.0));
    assert_eq!(config_of(model).kv_heads, 2);
    assert_says(
        &TinyModel::llama().with("num_attention_heads", json!(3)).refusal(),
        &["hidden_size: expected a multiple of num_attention_heads = 3, found 8"],
    );
    assert_says(&TinyModel::llama().with("num_attention_heads", json!(0)).refusal(), &["hidden_size"]);
}

#[test]
fn every_activation_is_the_function_that_transformers_means() {
    for (name, expected) in [
        ("gelu_new", Activation::GeluTanh),
        ("gelu_pytorch_tanh", Activation::GeluTanh),
        ("gelu_fast", Activation::GeluTanh),
        ("gelu", Activation::GeluErf),
        ("relu", Activation::Relu),
        ("silu", Activation::Silu),
    ] {
        let model = TinyModel::gpt2("").with("activation_function", json!(name));
        assert_eq!(config_of(model).activation, expected, "{name}");
    }
    assert_says(&TinyModel::llama().with("hidden_act", json!("mish")).refusal(), &["hidden_act \"mish\""]);
}

#[test]
fn what_would_silently_change_the_result_is_unsupported() {
    let gpt2 = || TinyModel::gpt2("");
    for (model, says) in [
        (
            gpt2().with("scale_attn_by_inverse_layer_idx", json!(true)),
            "scale_attn_by_inverse_layer_idx = true",
        ),
        (gpt2().with("scale_attn_weights", json!(false)), "scale_attn_weights = false"),
        (gpt2().with("add_cross_attention", json!(true)), "add_cross_attention = true"),
        (
            TinyModel::llama().with("quantization_config", json!({"quant_method": "bitsandbytes"})),
            "bitsandbytes",
        ),
        (
            gpt2().with("quantization_config", json!({"quant_method": "gptq", "bits": 4})),
            "a gpt2 model that is already quantized",
        ),
        (TinyModel::llama().with("model_type", json!("rwkv")), "supported model types: llama, gpt2, mistral"),
    ] {
        let error = model.open().unwrap_err();
        assert_eq!(error.failure(), Failure::Unsupported);
        assert_says(&error.to_string(), &["config.json", "is not supported", says]);
    }
    for harmless in [
        gpt2().with("reorder_and_upcast_attn", json!(true)),
        TinyModel::llama().with("pretraining_tp", json!(2)),
    ] {
        assert!(harmless.open().is_ok());
    }
}

#[test]
fn stop_tokens_of_both_files_are_kept_once_and_in_order() {
    let dir = TinyModel::llama().with("eos_token_id", json!([3, 2])).write();
    let generation = json!({"bos_token_id": 9, "eos_token_id": [2, 5, 3, 7]});
    fs::write(dir.path().join("generation_config.json"), generation.to_string()).unwrap();
    let source = open_huggingface(dir.path()).unwrap();
    assert_eq!(source.config().stop_tokens, [3, 2, 5, 7]);
    assert_eq!(source.config().bos, Some(1), "the model's own goes first");
    let none = TinyModel::llama().with("eos_token_id", Value::Null).with("bos_token_id", Value::Null);
    let config = config_of(none.with("pad_token_id", json!(-1)));
    assert_eq!((config.bos, config.pad, config.stop_tokens), (None, None, vec![]));
}

#[test]
fn tokens_that_end_an_answer_are_also_those_of_the_tokenizer() {
    let dir = TinyModel::llama().with("eos_token_id", json!([3, 2])).write();
    let stop_tokens = || open_huggingface(dir.path()).unwrap().config().stop_tokens.clone();
    let write = |name: &str, json: Value| fs::write(dir.path().join(name), json.to_string()).unwrap();
    let token = |id: u32, content: &str, special| json!({"id": id, "content": content, "special": special});
    write(
        "tokenizer.json",
        json!({"added_tokens": [
            token(5, "<|im_end|>", true), token(4, "<|endoftext|>", true), token(6, "</s>", false),
            token(7, "<bye>", true), token(10, "<eos>", true),
        ]}),
    );
    assert_eq!(stop_tokens(), [3, 2, 4, 5], "of special tokens those that the model has rows for");
    write("special_tokens_map.json", json!({"eos_token": {"content": "</s>"}}));
    assert_eq!(stop_tokens(), [6, 3, 2, 4, 5]);
    write("tokenizer_config.json", json!({"eos_token": "<bye>"}));
    assert_eq!(stop_tokens(), [7, 3, 2, 4, 5]);
    let files = open_huggingface(dir.path()).unwrap().files();
    assert!(files.contains(&dir.path().join("tokenizer_config.json")), "{files:?}");
    for eos in ["<eos>", "unknown"] {
        write("tokenizer_config.json", json!({"eos_token": eos}));
        assert_eq!(stop_tokens(), [3, 2, 4, 5], "{eos}");
    }
    write("tokenizer_config.json", json!({"eos_token": 5}));
    assert_eq!(stop_tokens(), [3, 2, 4, 5], "what is wrong in it is of no use here");
}

#[test]
fn a_wrong_value_is_named_with_what_was_expected_and_found() {
    for (field, value, says) in [
        ("model_type", json!(3), "model_type: expected a string, found 3"),
        (
            "hidden_size",
            json!("8"),
            "hidden_size: expected an integer from 0 to 4294967295, found the string \"8\"",
        ),
        ("hidden_size", json!(-8), "hidden_size: expected an integer"),
        ("hidden_size", json!(8.5), "found 8.5"),
        ("hidden_size", json!(1u64 << 40), "found 1099511627776"),
        (
            "vocab_size",
            json!([10]),
            "vocab_size: expected an integer from 0 to 4294967295, found a list of 1",
        ),
        ("num_hidden_layers", json!(0), "num_hidden_layers: expected 1 to 65536, found 0"),
        ("num_hidden_layers", json!(4_000_000_000u32), "expected 1 to 65536, found 4000000000"),
        ("num_key_value_heads", json!(3), "expected a multiple of kv_heads"),
        ("rms_norm_eps", json!({}), "rms_norm_eps: expected a number, found an object"),
        ("rms_norm_eps", json!(-1.0), "norm epsilon is -1"),
        ("tie_word_embeddings", json!("yes"), "tie_word_embeddings: expected true or false"),
        ("bos_token_id", json!(10), "bos holds token 10, expected below vocab = 10"),
        ("eos_token_id", json!(["</s>"]), "eos_token_id: expected a token id or a list of token ids"),
        ("pad_token_id", json!(-2), "pad_token_id: expected an integer"),
    ] {
        assert_says(&TinyModel::llama().with(field, value).refusal(), &["config.json", says]);
    }
    assert_says(&TinyModel::gpt2("").with("n_embd", json!(4_000_000_000u32)).refusal(), &["n_embd"]);
}
