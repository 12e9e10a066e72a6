//! Adapters that are read as they were meant, and those that are refused with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use qsf_format::{ModelConfig, TensorId, TensorKind};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Adapter;
use crate::source::configured_model;
use crate::source::gguf::tests::{Value as Key, Writer};

/// LLaMA of two layers: hidden 8, 2 heads of 4, 1 key-value head, ffn 12.
fn llama() -> ModelConfig {
    configured(&json!({
        "model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
        "num_hidden_layers": 2, "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true,
    }))
}

/// GPT-2 of one layer: hidden 4, 2 heads of 2.
fn gpt2() -> ModelConfig {
    configured(&json!({
        "model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 1, "n_inner": 16, "n_positions": 6,
        "vocab_size": 10, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
    }))
}

/// Mixtral of one layer: hidden 8, ffn 12, two experts.
fn mixtral() -> ModelConfig {
    configured(&json!({
        "model_type": "mixtral", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
        "num_hidden_layers": 1, "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "num_local_experts": 2, "num_experts_per_tok": 1,
    }))
}

fn configured(config: &Value) -> ModelConfig {
    configured_model(Path::new("config.json"), config.to_string().as_bytes()).unwrap().0
}

/// An adapter that a test changes before it is written and opened.
struct Peft {
    config: Value,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Peft {
    fn new() -> Peft {
        Peft { config: json!({ "peft_type": "LORA", "r": 1, "lora_alpha": 3 }), tensors: BTreeMap::new() }
    }

    /// Adds a pair of rank 1: inputs are all 1, outputs are counted up from `first`.
    fn pair(mut self, module: &str, outputs: usize, inputs: usize, first: usize) -> Peft {
        let name = |side| format!("base_model.model.{module}.lora_{side}.weight");
        self.tensors.insert(name("A"), (vec![1, inputs], vec![1.0; inputs]));
        let up = (first..first + outputs).map(|value| value as f32).collect();
        self.tensors.insert(name("B"), (vec![outputs, 1], up));
        self
    }

    fn set(mut self, name: &str, value: Value) -> Peft {
        self.config[name] = value;
        self
    }

    fn write(&self) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("adapter_config.json"), self.config.to_string()).unwrap();
        let bytes: Vec<Vec<u8>> = self
            .tensors
            .values()
            .map(|(_, values)| values.iter().flat_map(|value| value.to_le_bytes()).collect())
            .collect();
        let views = self.tensors.iter().zip(&bytes).map(|((name, (shape, _)), bytes)| {
            (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
        });
        let file = safetensors::serialize(views, None).unwrap();
        fs::write(dir.path().join("adapter_model.safetensors"), file).unwrap();
        dir
    }

    fn open(&self, config: &ModelConfig) -> Adapter {
        Adapter::open(self.write().path(), config, 1.0).unwrap()
    }

    fn why_not(&self, config: &ModelConfig) -> String {
        let error = Adapter::open(self.write().path(), config, 1.0).unwrap_err().to_string();
        assert!(!error.contains(char::is_control), "{error:?}");
        error
    }
}

/// What is added to a matrix for an input of ones in its first place only.
fn outputs(adapter: &Adapter, id: TensorId, expert: Option<usize>) -> Vec<f32> {
    let update = adapter.updates.iter().find(|update| (update.id, update.expert) == (id, expert)).unwrap();
    let [outputs, inputs] = update.low_rank.shape();
    let row = |output| {
        let mut row = vec![0.0; inputs];
        update.low_rank.add_to_row(qsf_cpu::Isa::SCALAR, output, &mut row);
        row[0]
    };
    (0..outputs).map(row).collect()
}

const Q: TensorId = TensorId { layer: Some(1), kind: TensorKind::AttnQ };

#[test]
fn a_scale_is_alpha_over_the_rank_or_its_root_as_patterns_say() {
    let peft = || {
        let mut peft = Peft::new().set("r", json!(4));
        let name = |side| format!("base_model.model.model.layers.1.self_attn.q_proj.lora_{side}.weight");
        peft.tensors.insert(name("A"), (vec![4, 8], vec![1.0; 32]));
        peft.tensors.insert(name("B"), (vec![8, 4], vec![1.0; 32]));
        peft
    };
    // The product of the matrices of ones is 4.
    let first = |peft: Peft| outputs(&peft.open(&llama()), Q, None)[0];
    assert_eq!(first(peft()), 3.0);
    assert_eq!(first(peft().set("use_rslora", json!(true))), 6.0);
    assert_eq!(first(peft().set("alpha_pattern", json!({ "q_proj": 5, "proj": 9 }))), 5.0);
    let ranked = peft().set("r", json!(64)).set("rank_pattern", json!({ "layers.1.self_attn.q_proj": 4 }));
    assert_eq!(first(ranked), 3.0);
    let dir = peft().write();
    let scaled = Adapter::open(dir.path(), &llama(), -0.5).unwrap();
    assert_eq!(outputs(&scaled, Q, None)[0], -1.5);
}

#[test]
fn what_a_model_has_apart_is_taken_apart() {
    let peft = Peft::new().set("lora_alpha", json!(1)).pair("transformer.h.0.attn.c_attn", 12, 4, 0);
    let adapter = peft.open(&gpt2());
    for (kind, expected) in [
        (TensorKind::AttnQ, [0.0, 1.0, 2.0, 3.0]),
        (TensorKind::AttnK, [4.0, 5.0, 6.0, 7.0]),
        (TensorKind::AttnV, [8.0, 9.0, 10.0, 11.0]),
    ] {
        assert_eq!(outputs(&adapter, TensorId::of_layer(0, kind), None), expected, "{kind}");
    }
}

#[test]
fn each_expert_has_updates_of_its_own_and_a_tied_head_one_beside_the_embedding() {
    let module = "model.layers.0.block_sparse_moe.experts.1.w2";
    let adapter = Peft::new().set("lora_alpha", json!(1)).pair(module, 8, 12, 5).open(&mixtral());
    let down = TensorId::of_layer(0, TensorKind::ExpertDown);
    assert_eq!(outputs(&adapter, down, Some(1))[..2], [5.0, 6.0]);
    let adapter = Peft::new().set("lora_alpha", json!(1)).pair("lm_head", 10, 8, 0).open(&llama());
    assert_eq!(outputs(&adapter, TensorId::of_model(TensorKind::Head), None)[9], 9.0);
}

#[test]
fn llama_cpp_has_the_rows_of_queries_in_its_own_order() {
    let up: Vec<f32> = (0..8).map(|value| value as f32).collect();
    let writer = |architecture: &'static str, kind: &'static str| {
        Writer::new()
            .set("general.type", Key::Str(kind))
            .set("general.architecture", Key::Str(architecture))
            .set("adapter.type", Key::Str("lora"))
            .set("adapter.lora.alpha", Key::F32(2.0))
            .f32s("blk.1.attn_q.weight.lora_a", &[8, 1], &[1.0; 8])
            .f32s("blk.1.attn_q.weight.lora_b", &[1, 8], &up)
    };
    let open = |writer: &Writer| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("adapter.gguf");
        fs::write(&path, writer.bytes()).unwrap();
        Adapter::open(&path, &llama(), 1.0)
    };
    let adapter = open(&writer("llama", "adapter")).unwrap();
    assert_eq!(outputs(&adapter, Q, None), [0.0, 4.0, 2.0, 6.0, 8.0, 12.0, 10.0, 14.0]);
    let message = open(&writer("qwen2", "adapter")).unwrap_err().to_string();
    assert!(message.contains("general.architecture") && message.contains("llama"), "{message}");
    let message = open(&writer("llama", "model")).unwrap_err().to_string();
    assert!(message.contains("general.type"), "{message}");
}

#[test]
fn what_cannot_be_applied_is_refused_by_name() {
    let q = "model.layers.1.self_attn.q_proj";
    let sound = || Peft::new().pair(q, 8, 8, 0);
    sound().open(&llama());
    for (field, value, says) in [
        ("peft_type", json!("LOHA"), "LOHA"),
        ("use_dora", json!(true), "DoRA"),
        ("bias", json!("lora_only"), "bias"),
        ("lora_bias", json!(true), "bias"),
        ("modules_to_save", json!(["norm"]), "modules_to_save"),
        ("trainable_token_indices", json!([1]), "trainable_token_indices"),
        ("target_parameters", json!(["mlp.experts.down_proj"]), "target_parameters"),
        ("init_lora_weights", json!("pissa"), "path_initial_model_for_weight_conversion"),
        ("alora_invocation_tokens", json!([1]), "begins within a text"),
        ("layer_replication", json!([[0, 1]]), "twice"),
        ("use_new_thing", json!(true), "use_new_thing"),
        ("rank_pattern", json!({ "q_.*": 1 }), "q_.*"),
        ("rank_pattern", json!({ "q_proj": 1, "self_attn.q_proj": 2 }), "one number"),
        ("r", json!(2), "rank"),
        ("r", json!(null), "r"),
        ("lora_alpha", json!("8"), "lora_alpha"),
    ] {
        let message = sound().set(field, value).why_not(&llama());
        assert!(message.contains(says), "{says:?} in {message:?}");
    }
    let vision = "vision_tower.encoder.layers.0.self_attn.q_proj";
    for (peft, says) in [
        (Peft::new().pair("model.layers.2.self_attn.q_proj", 8, 8, 0), "layers.2"),
        (Peft::new().pair("model.layers.01.self_attn.q_proj", 8, 8, 0), "layers.01"),
        (Peft::new().pair("model.layers.1.self_attn.z_proj", 8, 8, 0), "z_proj"),
        (Peft::new().pair("model.layers.1.self_attn.k_proj", 8, 8, 0), "[4, 8]"),
        (Peft::new().pair("model.embed_tokens", 10, 8, 0), "embedding"),
        (Peft::new().pair(vision, 8, 8, 0), "language model"),
        (sound().pair("layers.0.self_attn.q_proj", 8, 8, 0), "stands before"),
        (Peft::new(), "at least one pair"),
    ] {
        let message = peft.why_not(&llama());
        assert!(message.contains(says), "{says:?} in {message:?}");
    }
    let mut alone = sound();
    alone.tensors.remove(&format!("base_model.model.{q}.lora_B.weight"));
    assert!(alone.why_not(&llama()).contains("lora_B"));
    let mut broken = sound();
    broken.tensors.get_mut(&format!("base_model.model.{q}.lora_B.weight")).unwrap().1[3] = f32::NAN;
    assert!(broken.why_not(&llama()).contains("finite"));
    for (name, says) in [
        ("base_model.model.lm_head.base_layer.weight", "save_embedding_layers=False"),
        ("base_model.model.model.layers.1.self_attn.q_proj.lora_magnitude_vector", "DoRA"),
        ("base_model.model.model.embed_tokens.lora_embedding_A", "embeddings"),
        ("base_model.model.model.norm.weight", "lora_A and lora_B"),
    ] {
        let mut more = sound();
        more.tensors.insert(name.to_owned(), (vec![8], vec![0.0; 8]));
        let message = more.why_not(&llama());
        assert!(message.contains(says) && message.contains(name), "{says:?} in {message:?}");
    }
}
