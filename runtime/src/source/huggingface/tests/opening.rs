//! What a good model directory hands out.

use std::fs;

use qsf_format::{QuantType, TensorId, TensorKind};
use serde_json::json;

use super::*;
use crate::source::WeightSource;

fn layer0(source: &HuggingFaceSource, kind: TensorKind) -> (usize, usize, Vec<f32>) {
    let tensor = source.load(TensorId::of_layer(0, kind)).unwrap();
    (tensor.rows(), tensor.cols(), tensor.to_f32())
}

fn counted(from: usize, count: usize) -> Vec<f32> {
    (from..from + count).map(|i| i as f32).collect()
}

#[test]
fn tensors_come_in_the_order_of_a_qsf_file() {
    use TensorKind::*;
    let kinds = |source: HuggingFaceSource| source.tensors().iter().map(|t| t.id.kind).collect::<Vec<_>>();
    assert_eq!(
        kinds(TinyModel::llama().open().unwrap()),
        [
            TokenEmbedding,
            AttnQ,
            AttnK,
            AttnV,
            AttnOutput,
            FfnGate,
            FfnUp,
            FfnDown,
            AttnNorm,
            FfnNorm,
            FinalNorm
        ]
    );
    let untied = TinyModel::gpt2("transformer.")
        .with("tie_word_embeddings", json!(false))
        .with_tensor("lm_head.weight", Plain::f32(&[10, 4], 0.0));
    assert_eq!(
        kinds(untied.open().unwrap()),
        [
            TokenEmbedding,
            AttnQ,
            AttnK,
            AttnV,
            AttnOutput,
            FfnUp,
            FfnDown,
            AttnNorm,
            FfnNorm,
            AttnQBias,
            AttnKBias,
            AttnVBias,
            AttnOutputBias,
            AttnNormBias,
            FfnNormBias,
            FfnUpBias,
            FfnDownBias,
            FinalNorm,
            FinalNormBias,
            Head,
            Positions
        ]
    );
}

#[test]
fn gpt2_projections_come_transposed_and_the_joined_one_in_three() {
    for prefix in ["transformer.", ""] {
        let source = TinyModel::gpt2(prefix).open().unwrap();
        // Stored as 4 inputs x 12 outputs with value 12 * input + output; key outputs are 4 to 7.
        let key = (4..8).flat_map(|output| (0..4).map(move |input| (12 * input + output) as f32)).collect();
        assert_eq!(layer0(&source, TensorKind::AttnK), (4, 4, key));
        assert_eq!(layer0(&source, TensorKind::AttnVBias), (1, 4, counted(8, 4)));
        let down = (0..4).flat_map(|output| (0..16).map(move |input| (4 * input + output) as f32)).collect();
        assert_eq!(layer0(&source, TensorKind::FfnDown), (4, 16, down));
        assert_eq!(source.load(TensorId::of_model(TensorKind::Positions)).unwrap().to_f32(), counted(0, 24));
    }
}

#[test]
fn llama_projections_come_as_stored_from_one_file_or_from_shards() {
    let model = TinyModel::llama();
    for dir in [model.write(), model.write_sharded()] {
        let source = open_huggingface(dir.path()).unwrap();
        assert_eq!(layer0(&source, TensorKind::FfnDown), (8, 12, counted(0, 96)));
        assert_eq!(layer0(&source, TensorKind::AttnNorm), (1, 8, counted(0, 8)));
        let embedding = source.load(TensorId::of_model(TensorKind::TokenEmbedding)).unwrap();
        assert_eq!(
            (embedding.rows(), embedding.cols(), embedding.stored_type()),
            (10, 8, QuantType::F32.into())
        );
    }
}

#[test]
fn a_model_saved_without_its_prefix_is_read_too() {
    let mut model = TinyModel::llama();
    model.tensors = model.tensors.iter().map(|(name, t)| (name.replace("model.", ""), t.clone())).collect();
    assert_eq!(model.open().unwrap().tensors().len(), 11);
}

#[test]
fn biases_are_read_where_they_are_and_missed_where_the_configuration_wants_them() {
    let bias = "model.layers.0.self_attn.q_proj.bias";
    let with_bias = || TinyModel::llama().with_tensor(bias, Plain::f32(&[8], 5.0));
    let source = with_bias().open().unwrap();
    assert_eq!(layer0(&source, TensorKind::AttnQBias), (1, 8, counted(5, 8)));
    let message = with_bias().with("attention_bias", json!(true)).refusal();
    assert_says(&message, &["tensor \"model.layers.0.self_attn.k_proj.bias\"", "found none"]);
    assert_says(
        &with_bias().with("attention_bias", json!(false)).refusal(),
        &[bias, "only tensors of a llama"],
    );
    let mut all = TinyModel::llama().with("mlp_bias", json!(true));
    for (name, len) in [("gate", 12), ("up", 12), ("down", 8)] {
        all = all.with_tensor(&format!("model.layers.0.mlp.{name}_proj.bias"), Plain::f32(&[len], 0.0));
    }
    assert_eq!(layer0(&all.open().unwrap(), TensorKind::FfnDownBias).1, 8);
}

#[test]
fn constants_of_old_versions_and_the_copy_of_a_tied_head_are_left_out() {
    let mask = |name: &str| format!("transformer.h.0.attn.{name}");
    let gpt2 = TinyModel::gpt2("transformer.")
        .with_tensor(&mask("bias"), Plain::zeros(Dtype::U8, &[1, 1, 6, 6]))
        .with_tensor(&mask("masked_bias"), Plain::f32(&[], 0.0))
        .with_tensor("lm_head.weight", Plain::f32(&[10, 4], 7.0));
    assert_eq!(gpt2.open().unwrap().tensors().len(), 21, "a head that was trained apart stays");
    let (_, embedding) = gpt2.tensors.iter().find(|(name, _)| *name == "transformer.wte.weight").unwrap();
    let copied = embedding.clone();
    assert_eq!(gpt2.with_tensor("lm_head.weight", copied).open().unwrap().tensors().len(), 20);
    let frequencies = "model.layers.0.self_attn.rotary_emb.inv_freq";
    let llama = TinyModel::llama().with_tensor(frequencies, Plain::f32(&[2], 0.0));
    assert_eq!(llama.open().unwrap().tensors().len(), 11);
}

#[test]
fn released_memory_comes_back_with_the_same_values() {
    // Large enough to hold whole pages: 512 x 256 floats are 512 KiB.
    let model = TinyModel::llama()
        .with("intermediate_size", json!(40_000))
        .with_tensor("model.layers.0.mlp.gate_proj.weight", Plain::f32(&[40_000, 8], 0.0))
        .with_tensor("model.layers.0.mlp.up_proj.weight", Plain::f32(&[40_000, 8], 0.0))
        .with_tensor("model.layers.0.mlp.down_proj.weight", Plain::f32(&[8, 40_000], 0.0));
    let source = model.open().unwrap();
    let up = source.load(TensorId::of_layer(0, TensorKind::FfnUp)).unwrap();
    let before = up.to_f32();
    for layer in [Some(0), None, Some(7)] {
        source.release(layer);
        assert_eq!(up.to_f32(), before, "a tensor in use stays valid");
    }
    assert_eq!(layer0(&source, TensorKind::FfnUp).2, before);
}

#[test]
fn a_tensor_that_the_model_does_not_have_is_an_error() {
    let source = TinyModel::llama().open().unwrap();
    for id in [TensorId::of_layer(1, TensorKind::AttnQ), TensorId::of_model(TensorKind::Head)] {
        assert_says(&source.load(id).unwrap_err().to_string(), &[&id.to_string()]);
    }
}

#[test]
fn the_files_that_a_model_was_read_from_are_listed() {
    let dir = TinyModel::llama().write_sharded();
    for (name, text) in [("tokenizer.json", "{}"), ("chat_template.jinja", "{{ x }}"), ("README.md", "no")] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let source = open_huggingface(dir.path()).unwrap();
    assert_eq!(source.tokenizer_json(), Some(&b"{}"[..]));
    assert_eq!(source.chat_template(), Some(&b"{{ x }}"[..]));
    let names: Vec<_> =
        source.files().iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(
        names,
        [
            "config.json",
            "model.safetensors.index.json",
            "a.safetensors",
            "b.safetensors",
            "tokenizer.json",
            "chat_template.jinja"
        ]
    );
}
