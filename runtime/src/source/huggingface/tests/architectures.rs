//! For every architecture: a tiny model written by hand, of which every tensor is used, once, and none may be missing.

mod hybrids;
mod latents;
mod layer_norms;
mod others;
mod state_spaces;

use std::collections::HashSet;

use qsf_format::TensorKind;
use serde_json::json;

use self::layer_norms::{bloom, gpt_bigcode, gpt_neox, gpt2, gptj, mpt, opt};
use super::*;
use crate::source::WeightSource;
use crate::source::huggingface::architectures;

/// A tiny model of each architecture. Hidden 8, ffn 12, vocabulary 10, 2 layers; heads as the architecture allows.
pub(super) fn samples() -> Vec<TinyModel> {
    let mut samples = vec![
        llama(),
        gpt2(),
        llama_like("mistral", json!({"sliding_window": null}), &[]),
        mixtral(false),
        mixtral(true),
        phi(),
        phi3(),
        llama_like(
            "qwen2",
            json!({}),
            &[("q_proj.bias", &[12]), ("k_proj.bias", &[6]), ("v_proj.bias", &[6])],
        ),
        llama_like("qwen3", json!({}), &[("q_norm.weight", &[6]), ("k_norm.weight", &[6])]),
        qwen3_moe(),
        gemma("gemma2", &[]),
        gemma("gemma3_text", &[("self_attn.q_norm.weight", &[6]), ("self_attn.k_norm.weight", &[6])]),
        llama_like("smollm3", json!({"no_rope_layer_interval": 2, "tie_word_embeddings": false}), &[]),
        olmo2(),
        gpt_neox(),
        opt(),
        bloom(),
        gptj(),
        mpt(),
        gpt_bigcode(),
    ];
    samples.extend(later_samples::samples());
    samples.extend(hybrids::samples());
    samples.extend(latents::samples());
    samples.extend(state_spaces::samples());
    samples.extend(others::samples());
    samples
}

pub(super) type Shapes<'a> = &'a [(&'a str, &'a [usize])];

/// A model with these tensors, those of a layer twice. All values of all tensors differ.
pub(super) fn model(config: Value, of_model: Shapes<'_>, layer: &str, of_layer: Shapes<'_>) -> TinyModel {
    let mut tensors = BTreeMap::new();
    let mut first = 0;
    let mut add = |name: String, shape: &[usize]| {
        tensors.insert(name, Plain::f32(shape, first as f32));
        first += shape.iter().product::<usize>();
    };
    of_model.iter().for_each(|(name, shape)| add((*name).to_owned(), shape));
    for i in 0..2 {
        of_layer.iter().for_each(|(name, shape)| add(format!("{layer}{i}.{name}"), shape));
    }
    TinyModel { config, tensors }
}

pub(super) fn merged(mut config: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    config
}

pub(super) const LLAMA_MODEL: Shapes<'_> =
    &[("model.embed_tokens.weight", &[10, 8]), ("model.norm.weight", &[8]), ("lm_head.weight", &[10, 8])];
pub(super) const LLAMA_NORMS: Shapes<'_> =
    &[("input_layernorm.weight", &[8]), ("post_attention_layernorm.weight", &[8])];
/// Heads of 6, which is no half of 8.
pub(super) const LLAMA_ATTENTION: Shapes<'_> = &[
    ("self_attn.q_proj.weight", &[12, 8]),
    ("self_attn.k_proj.weight", &[6, 8]),
    ("self_attn.v_proj.weight", &[6, 8]),
    ("self_attn.o_proj.weight", &[8, 12]),
];
pub(super) const LLAMA_FFN: Shapes<'_> = &[
    ("mlp.gate_proj.weight", &[12, 8]),
    ("mlp.up_proj.weight", &[12, 8]),
    ("mlp.down_proj.weight", &[8, 12]),
];

pub(super) fn llama_config(model_type: &str) -> Value {
    json!({
        "model_type": model_type, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 6, "num_hidden_layers": 2, "intermediate_size": 12, "vocab_size": 10,
        "max_position_embeddings": 16, "tie_word_embeddings": false,
    })
}

fn llama_like(model_type: &str, fields: Value, attention: Shapes<'_>) -> TinyModel {
    let more: Vec<(String, &[usize])> =
        attention.iter().map(|(name, shape)| (format!("self_attn.{name}"), *shape)).collect();
    let more: Vec<(&str, &[usize])> = more.iter().map(|(name, shape)| (name.as_str(), *shape)).collect();
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN, &more].concat();
    model(merged(llama_config(model_type), fields), LLAMA_MODEL, "model.layers.", &layer)
}

fn llama() -> TinyModel {
    let biases: Shapes<'_> = &[
        ("self_attn.q_proj.bias", &[12]),
        ("self_attn.k_proj.bias", &[6]),
        ("self_attn.v_proj.bias", &[6]),
        ("self_attn.o_proj.bias", &[8]),
        ("mlp.gate_proj.bias", &[12]),
        ("mlp.up_proj.bias", &[12]),
        ("mlp.down_proj.bias", &[8]),
    ];
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN, biases].concat();
    let config = merged(llama_config("llama"), json!({"attention_bias": true, "mlp_bias": true}));
    model(config, LLAMA_MODEL, "model.layers.", &layer)
}

fn mixtral(joined: bool) -> TinyModel {
    let config = merged(llama_config("mixtral"), json!({"num_local_experts": 2, "num_experts_per_tok": 1}));
    let single: Shapes<'_> = &[
        ("block_sparse_moe.gate.weight", &[2, 8]),
        ("block_sparse_moe.experts.0.w1.weight", &[12, 8]),
        ("block_sparse_moe.experts.0.w2.weight", &[8, 12]),
        ("block_sparse_moe.experts.0.w3.weight", &[12, 8]),
        ("block_sparse_moe.experts.1.w1.weight", &[12, 8]),
        ("block_sparse_moe.experts.1.w2.weight", &[8, 12]),
        ("block_sparse_moe.experts.1.w3.weight", &[12, 8]),
    ];
    let all: Shapes<'_> = &[
        ("mlp.gate.weight", &[2, 8]),
        ("mlp.experts.gate_up_proj", &[2, 24, 8]),
        ("mlp.experts.down_proj", &[2, 8, 12]),
    ];
    let layer = [LLAMA_NORMS, LLAMA_ATTENTION, if joined { all } else { single }].concat();
    model(config, LLAMA_MODEL, "model.layers.", &layer)
}

/// Three experts of width 4 in the second layer only.
fn qwen3_moe() -> TinyModel {
    let config = json!({
        "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 4, "decoder_sparse_step": 2,
    });
    let norms: Shapes<'_> = &[("q_norm.weight", &[6]), ("k_norm.weight", &[6])];
    let mut model = llama_like("qwen3_moe", config, norms);
    model.tensors.retain(|name, _| !name.contains("layers.1.mlp"));
    let mut first = 10_000;
    let mut add = |name: String, shape: &[usize]| {
        let tensor = Plain::f32(shape, first as f32);
        first += shape.iter().product::<usize>();
        model.tensors.insert(format!("model.layers.1.mlp.{name}"), tensor);
    };
    add("gate.weight".into(), &[3, 8]);
    for e in 0..3 {
        add(format!("experts.{e}.gate_proj.weight"), &[4, 8]);
        add(format!("experts.{e}.up_proj.weight"), &[4, 8]);
        add(format!("experts.{e}.down_proj.weight"), &[8, 4]);
    }
    model
}

fn gemma(model_type: &str, attention: Shapes<'_>) -> TinyModel {
    let norms: Shapes<'_> = &[
        ("input_layernorm.weight", &[8]),
        ("post_attention_layernorm.weight", &[8]),
        ("pre_feedforward_layernorm.weight", &[8]),
        ("post_feedforward_layernorm.weight", &[8]),
    ];
    let layer = [norms, LLAMA_ATTENTION, LLAMA_FFN, attention].concat();
    let config = merged(llama_config(model_type), json!({"tie_word_embeddings": true}));
    model(config, &LLAMA_MODEL[..2], "model.layers.", &layer)
}

fn olmo2() -> TinyModel {
    let norms: Shapes<'_> = &[
        ("post_attention_layernorm.weight", &[8]),
        ("post_feedforward_layernorm.weight", &[8]),
        ("self_attn.q_norm.weight", &[12]),
        ("self_attn.k_norm.weight", &[6]),
    ];
    let layer = [norms, LLAMA_ATTENTION, LLAMA_FFN].concat();
    model(llama_config("olmo2"), LLAMA_MODEL, "model.layers.", &layer)
}

fn phi3() -> TinyModel {
    let matrices: Shapes<'_> = &[
        ("self_attn.qkv_proj.weight", &[24, 8]),
        ("self_attn.o_proj.weight", &[8, 12]),
        ("mlp.gate_up_proj.weight", &[24, 8]),
        ("mlp.down_proj.weight", &[8, 12]),
    ];
    model(llama_config("phi3"), LLAMA_MODEL, "model.layers.", &[LLAMA_NORMS, matrices].concat())
}

fn phi() -> TinyModel {
    let config = json!({
        "model_type": "phi", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2,
        "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 16, "tie_word_embeddings": false,
    });
    let of_model: Shapes<'_> = &[
        ("model.embed_tokens.weight", &[10, 8]),
        ("model.final_layernorm.weight", &[8]),
        ("model.final_layernorm.bias", &[8]),
        ("lm_head.weight", &[10, 8]),
        ("lm_head.bias", &[10]),
    ];
    let layer: Shapes<'_> = &[
        ("input_layernorm.weight", &[8]),
        ("input_layernorm.bias", &[8]),
        ("self_attn.q_proj.weight", &[8, 8]),
        ("self_attn.q_proj.bias", &[8]),
        ("self_attn.k_proj.weight", &[8, 8]),
        ("self_attn.k_proj.bias", &[8]),
        ("self_attn.v_proj.weight", &[8, 8]),
        ("self_attn.v_proj.bias", &[8]),
        ("self_attn.dense.weight", &[8, 8]),
        ("self_attn.dense.bias", &[8]),
        ("mlp.fc1.weight", &[12, 8]),
        ("mlp.fc1.bias", &[12]),
        ("mlp.fc2.weight", &[8, 12]),
        ("mlp.fc2.bias", &[8]),
    ];
    model(config, of_model, "model.layers.", layer)
}

fn name_of(model: &TinyModel) -> &str {
    model.config["model_type"].as_str().unwrap()
}

fn values(tensor: &Plain) -> impl Iterator<Item = u32> {
    tensor.bytes.chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
}

#[test]
fn every_architecture_has_a_sample() {
    let samples = samples();
    let names: HashSet<&str> = samples.iter().map(name_of).collect();
    assert_eq!(names, architectures::ALL.iter().map(architectures::Architecture::name).collect());
}

#[test]
fn every_stored_value_is_in_exactly_one_tensor() {
    for model in samples() {
        let mut stored: Vec<u32> = model
            .tensors
            .iter()
            // The first two rows of OPT's positions mean nothing.
            .flat_map(|(name, tensor)| {
                values(tensor).skip(if name.contains("embed_positions") { 16 } else { 0 })
            })
            .collect();
        let source = model.open().unwrap();
        let tensors = source.tensors().iter().map(|info| {
            let values = source.load(info.id).unwrap().to_f32();
            // The only values that are not stored as the model has them.
            let decay = info.id.kind == TensorKind::MixerDecay;
            values.into_iter().map(|value| if decay { (-value).ln().round() } else { value }).collect()
        });
        let mut loaded: Vec<u32> =
            tensors.flat_map(|values: Vec<f32>| values).map(|value| value.to_bits()).collect();
        stored.sort_unstable();
        loaded.sort_unstable();
        assert!(stored == loaded, "{}", name_of(&model));
        assert_eq!(source.config().architecture, name_of(&model));
    }
}

#[test]
fn a_tensor_that_is_missing_or_misnamed_is_an_error_that_names_it() {
    for mut model in samples() {
        let names: Vec<String> = model.tensors.keys().cloned().collect();
        for name in names {
            let tensor = model.tensors.remove(&name).unwrap();
            let message = model.refusal();
            // Experts in one tensor are missed under the name that they have one by one.
            let experts = name.contains("mlp.experts.") && message.contains("block_sparse_moe.experts.0.");
            let router =
                name.ends_with("mlp.gate.weight") && message.contains("block_sparse_moe.gate.weight");
            // Queries are made of latents or not: the first name of the two is said.
            let queries = name.ends_with("self_attn.q_proj.weight") && message.contains("q_b_proj");
            assert!(message.contains(&name) || experts || router || queries, "{name}: {message}");
            model.tensors.insert(format!("{name}x"), tensor.clone());
            let message = model.refusal();
            assert!(message.contains(&name) || experts || router || queries, "{name}: {message}");
            model.tensors.remove(&format!("{name}x"));
            model.tensors.insert(name, tensor);
        }
    }
}

#[test]
fn a_tensor_too_many_is_an_error_that_names_it() {
    for model in samples() {
        // Streams are counted, too, and are no layers.
        let of_layer = |name: &&String| {
            name.starts_with("h.0.") || name.contains(".0.") && !name.contains("_projections.0.")
        };
        let layer = model.tensors.keys().find(of_layer).unwrap();
        for name in ["score.weight".to_owned(), layer.replacen('0', "2", 1)] {
            let extra = TinyModel { config: model.config.clone(), tensors: model.tensors.clone() };
            let message = extra.with_tensor(&name, Plain::f32(&[8], 0.0)).refusal();
            assert_says(&message, &[&name, "only tensors of a", name_of(&model)]);
        }
    }
}

#[test]
fn keys_and_values_of_layers_that_share_those_of_others_are_left_out() {
    let mut model = latents::gemma4();
    for (name, value) in [
        ("num_hidden_layers", json!(3)),
        ("num_kv_shared_layers", json!(1)),
        ("hidden_size_per_layer_input", json!(0)),
        ("layer_types", json!(["sliding_attention", "full_attention", "full_attention"])),
    ] {
        model = model.with(name, value);
    }
    let second: Vec<(String, Plain)> = model.tensors.iter().map(|(n, t)| (n.clone(), t.clone())).collect();
    for (name, tensor) in second.into_iter().filter(|(name, _)| name.contains(".layers.1.")) {
        model.tensors.insert(name.replace(".layers.1.", ".layers.2."), tensor);
    }
    model.tensors.retain(|name, _| !name.contains("per_layer"));
    let source = model.open().unwrap();
    assert_eq!(source.config().kv_source(2), 1);
    let kinds = |layer| source.tensors().iter().filter(move |info| info.id.layer == Some(layer)).count();
    assert_eq!((kinds(1), kinds(2)), (14, 11), "neither keys nor values, nor the norm of keys");
    let without = model.without_tensor("model.layers.2.self_attn.k_proj.weight");
    assert!(without.open().is_ok(), "nor are they missed");
    let message = without.with("num_kv_shared_layers", json!(2)).refusal();
    assert_says(&message, &["shares keys and values", "none has no window"]);
}

#[test]
fn layers_that_predict_further_tokens_are_left_out_where_they_are_announced() {
    let with_further = |announced: u32| {
        let mut model =
            latents::deepseek("deepseek_v3", json!({"num_nextn_predict_layers": announced, "n_group": 1}));
        let first: Vec<(String, Plain)> = model
            .tensors
            .iter()
            .filter(|(name, _)| name.contains(".layers.1."))
            .map(|(n, t)| (n.clone(), t.clone()))
            .collect();
        for (name, tensor) in first {
            model.tensors.insert(name.replace(".layers.1.", ".layers.2."), tensor);
        }
        model.with_tensor("model.layers.2.eh_proj.weight", Plain::f32(&[8, 16], 0.0))
    };
    let source = with_further(1).open().unwrap();
    assert_eq!(source.config().layers, 2);
    assert!(source.tensors().iter().all(|info| info.id.layer.is_none_or(|layer| layer < 2)));
    assert_says(
        &with_further(0).refusal(),
        &["model.layers.2.eh_proj.weight", "only tensors of a deepseek_v3"],
    );
}

#[test]
fn an_architecture_that_is_not_named_is_known_by_its_tensors() {
    for model in samples() {
        let name = name_of(&model).to_owned();
        if architectures::of_model_type(&name).unwrap().marks.by_name {
            continue;
        }
        let unnamed = model.with("model_type", Value::Null);
        assert_eq!(unnamed.open().unwrap().config().architecture, name);
    }
    let other = llama().with("model_type", Value::Null).with_tensor("model.x.weight", Plain::f32(&[8], 0.0));
    assert_says(
        &other.refusal(),
        &["config.json", "model_type", "supported model types: llama", "those of none"],
    );
}

#[test]
fn heads_that_the_configuration_does_not_count_follow_from_the_shapes() {
    for mut model in samples() {
        let expected = model.open().unwrap().config().clone();
        for field in ["head_dim", "num_key_value_heads"] {
            model = model.with(field, Value::Null);
        }
        assert_eq!(*model.open().unwrap().config(), expected);
    }
}

#[test]
fn a_language_model_in_a_larger_model_is_read_without_the_rest() {
    for (prefix, head) in [("language_model.model.", "language_model."), ("model.language_model.", "")] {
        let mut model = llama_like("mistral", json!({}), &[]);
        model.config = json!({
            "model_type": "mistral3", "text_config": model.config, "vision_config": {"hidden_size": 3},
            "bos_token_id": 1, "eos_token_id": [2, 3],
        });
        let renamed = |name: &String| match name.strip_prefix("model.") {
            Some(name) => format!("{prefix}{name}"),
            None => format!("{head}{name}"),
        };
        model.tensors = model.tensors.iter().map(|(name, tensor)| (renamed(name), tensor.clone())).collect();
        let model = model
            .with_tensor("vision_tower.patch_conv.weight", Plain::f32(&[3, 3], 0.0))
            .with_tensor("multi_modal_projector.linear_1.weight", Plain::f32(&[8, 3], 0.0));
        let head = format!("{head}lm_head.weight");
        let mut model = model;
        for (whole, part) in [(true, false), (false, true)] {
            model.config["tie_word_embeddings"] = json!(whole);
            model.config["text_config"]["tie_word_embeddings"] = json!(part);
            assert!(!model.open().unwrap().config().tied_head, "the head is there");
            let tied = TinyModel { config: model.config.clone(), tensors: model.tensors.clone() };
            assert!(tied.without_tensor(&head).open().unwrap().config().tied_head);
        }
        let source = model.open().unwrap();
        assert_eq!((source.config().architecture.as_str(), source.tensors().len()), ("mistral", 3 + 2 * 9));
        assert_eq!((source.config().bos, source.config().stop_tokens.as_slice()), (Some(1), &[2, 3][..]));
        let other = model.with_tensor("score.weight", Plain::f32(&[8], 0.0)).refusal();
        assert_says(&other, &["score.weight", "only tensors of a mistral model"]);
    }
    let unknown = llama_like("mistral", json!({"text_config": {"model_type": "mistral"}}), &[]);
    assert_says(
        &unknown.with("model_type", json!("chameleon")).refusal(),
        &["model type \"chameleon\" is not"],
    );
}
