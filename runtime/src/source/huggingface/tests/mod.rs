//! Tests on whole model directories, made here or real.

mod architectures;
mod configurations;
mod damaged;
mod float8;
mod hub;
mod later_configurations;
mod later_samples;
mod opening;
mod torch;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{HuggingFaceSource, open_huggingface};
use crate::error::Result;

/// A tiny model that a test changes in one place before it is written and opened.
pub(super) struct TinyModel {
    pub config: Value,
    pub tensors: BTreeMap<String, Plain>,
}

/// A tensor with values counted up from its first, so that every place in it is known by its value.
#[derive(Clone)]
pub(super) struct Plain {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Plain {
    pub fn f32(shape: &[usize], first: f32) -> Plain {
        let count = shape.iter().product();
        let bytes = (0..count).flat_map(|i: usize| (first + i as f32).to_le_bytes()).collect();
        Plain { dtype: Dtype::F32, shape: shape.to_vec(), bytes }
    }

    pub fn zeros(dtype: Dtype, shape: &[usize]) -> Plain {
        let bytes = vec![0; shape.iter().product::<usize>() * dtype.bitsize() / 8];
        Plain { dtype, shape: shape.to_vec(), bytes }
    }
}

impl TinyModel {
    /// LLaMA with one layer: hidden 8, 2 heads of 4, 1 key-value head, ffn 12, vocabulary 10, tied head.
    pub fn llama() -> TinyModel {
        let config = json!({
            "model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
            "num_hidden_layers": 1, "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 16,
            "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true, "bos_token_id": 1,
            "eos_token_id": 2,
        });
        let layer = "model.layers.0.";
        let mut tensors = BTreeMap::new();
        for (name, shape) in [
            ("self_attn.q_proj.weight", &[8, 8][..]),
            ("self_attn.k_proj.weight", &[4, 8]),
            ("self_attn.v_proj.weight", &[4, 8]),
            ("self_attn.o_proj.weight", &[8, 8]),
            ("mlp.gate_proj.weight", &[12, 8]),
            ("mlp.up_proj.weight", &[12, 8]),
            ("mlp.down_proj.weight", &[8, 12]),
            ("input_layernorm.weight", &[8]),
            ("post_attention_layernorm.weight", &[8]),
        ] {
            tensors.insert(format!("{layer}{name}"), Plain::f32(shape, 0.0));
        }
        tensors.insert("model.embed_tokens.weight".into(), Plain::f32(&[10, 8], 0.0));
        tensors.insert("model.norm.weight".into(), Plain::f32(&[8], 0.0));
        TinyModel { config, tensors }
    }

    /// GPT-2 with one layer: hidden 4, 2 heads of 2, ffn 16, vocabulary 10, 6 positions.
    pub fn gpt2(prefix: &str) -> TinyModel {
        let config = json!({
            "model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 1, "n_inner": null, "n_positions": 6,
            "vocab_size": 10, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
        });
        let mut tensors = BTreeMap::new();
        for (name, shape) in [
            ("wte.weight", &[10, 4][..]),
            ("wpe.weight", &[6, 4]),
            ("ln_f.weight", &[4]),
            ("ln_f.bias", &[4]),
            ("h.0.ln_1.weight", &[4]),
            ("h.0.ln_1.bias", &[4]),
            ("h.0.ln_2.weight", &[4]),
            ("h.0.ln_2.bias", &[4]),
            ("h.0.attn.c_attn.weight", &[4, 12]),
            ("h.0.attn.c_attn.bias", &[12]),
            ("h.0.attn.c_proj.weight", &[4, 4]),
            ("h.0.attn.c_proj.bias", &[4]),
            ("h.0.mlp.c_fc.weight", &[4, 16]),
            ("h.0.mlp.c_fc.bias", &[16]),
            ("h.0.mlp.c_proj.weight", &[16, 4]),
            ("h.0.mlp.c_proj.bias", &[4]),
        ] {
            tensors.insert(format!("{prefix}{name}"), Plain::f32(shape, 0.0));
        }
        TinyModel { config, tensors }
    }

    /// This model with another value (`null` removes it) in the configuration.
    pub fn with(mut self, field: &str, value: Value) -> TinyModel {
        self.config[field] = value;
        self
    }

    /// This model with a tensor more, or another one under the name.
    pub fn with_tensor(mut self, name: &str, tensor: Plain) -> TinyModel {
        self.tensors.insert(name.to_owned(), tensor);
        self
    }

    /// This model without a tensor.
    pub fn without_tensor(mut self, name: &str) -> TinyModel {
        assert!(self.tensors.remove(name).is_some(), "{name} was there");
        self
    }

    /// Writes the model with all weights in one file.
    pub fn write(&self) -> TempDir {
        let dir = self.write_config();
        self.write_weights(&dir.path().join("model.safetensors"), |_| true);
        dir
    }

    /// Writes the configuration only.
    pub fn write_config(&self) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.json"), self.config.to_string()).unwrap();
        dir
    }

    /// Writes the tensors that `choose` names to one file.
    pub fn write_weights(&self, path: &Path, choose: impl Fn(&str) -> bool) {
        let chosen = self.tensors.iter().filter(|(name, _)| choose(name));
        let views = chosen.map(|(name, tensor)| {
            (name, TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap())
        });
        fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
    }

    /// Writes the model in two shards with an index: the embedding in the first, all else in the second.
    pub fn write_sharded(&self) -> TempDir {
        let dir = self.write_config();
        let shard = |name: &str| if name.contains("embed") { "a.safetensors" } else { "b.safetensors" };
        for file in ["a.safetensors", "b.safetensors"] {
            self.write_weights(&dir.path().join(file), |name| shard(name) == file);
        }
        let weight_map: BTreeMap<&str, &str> =
            self.tensors.keys().map(|name| (name.as_str(), shard(name))).collect();
        write_index(dir.path(), &json!(weight_map));
        dir
    }

    /// Writes and opens the model. The files are gone afterwards, which its maps survive.
    pub fn open(&self) -> Result<HuggingFaceSource> {
        open_huggingface(self.write().path())
    }

    /// The message of opening it, which must fail.
    pub fn refusal(&self) -> String {
        refusal(self.write().path())
    }
}

pub(super) fn write_index(dir: &Path, weight_map: &Value) {
    let index = json!({"metadata": {}, "weight_map": weight_map});
    fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

/// The message of opening `dir`, which must fail.
pub(super) fn refusal(dir: &Path) -> String {
    open_huggingface(dir).unwrap_err().to_string()
}

/// Fails unless `message` has every one of `parts`.
pub(super) fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}
