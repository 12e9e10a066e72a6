//! Source models: the embedded one, and models of any size with random weights.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// Writes the embedded model into `demo-1m` in `dir` and gives that folder.
pub fn demo_model(dir: &Path) -> PathBuf {
    let model = dir.join("demo-1m");
    qsf_cli::convert::write_demo_model(&model).unwrap();
    model
}

/// Writes a LLaMA with random weights and the tokenizer of the embedded model into `small` in `dir` and gives that folder. It has a
/// fifth of the embedded model's weights: for what holds of any model.
pub fn small_model(dir: &Path) -> PathBuf {
    let model = dir.join("small");
    write_llama(&model, Size { layers: 2, hidden: 64, ffn: 160, vocab: 2048 }, 3);
    let embedded = tempfile::tempdir().unwrap();
    fs::copy(demo_model(embedded.path()).join("tokenizer.json"), model.join("tokenizer.json")).unwrap();
    model
}

/// Dimensions of a model with random weights.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Layers.
    pub layers: usize,
    /// Width; heads are 32 wide, and a LLaMA has two query heads to a key/value head.
    pub hidden: usize,
    /// Inner width of the feed-forward.
    pub ffn: usize,
    /// Rows of the embedding.
    pub vocab: usize,
}

impl Size {
    /// A model that every program is through with at once.
    pub const TINY: Size = Size { layers: 2, hidden: 128, ffn: 192, vocab: 96 };

    /// Query heads.
    pub fn heads(&self) -> usize {
        self.hidden / 32
    }
}

/// Longest sequence of the models written here.
const POSITIONS: usize = 64;

/// Writes a LLaMA with a tied head and random f32 weights into `dir`, which is made. It has no tokenizer.
pub fn write_llama(dir: &Path, size: Size, seed: u64) {
    write(dir, &llama_config(size), &llama_shapes(size), seed);
}

/// Writes a LLaMA with weights of zero that take no room on the disk, however large the model is.
pub fn write_sparse_llama(dir: &Path, size: Size) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("config.json"), format!("{:#}", llama_config(size))).unwrap();
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in llama_shapes(size) {
        let start = end;
        end += 4 * shape.iter().product::<usize>() as u64;
        header.insert(name, json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, end] }));
    }
    let header = Value::Object(header).to_string().into_bytes();
    let mut file = fs::File::create(dir.join("model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(&header).unwrap();
    file.set_len(8 + header.len() as u64 + end).unwrap();
}

fn llama_config(size: Size) -> Value {
    let Size { layers, hidden, ffn, vocab } = size;
    json!({
        "model_type": "llama", "hidden_size": hidden, "num_attention_heads": size.heads(),
        "num_key_value_heads": size.heads() / 2, "num_hidden_layers": layers, "intermediate_size": ffn,
        "vocab_size": vocab, "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "tie_word_embeddings": true, "rope_theta": 10000.0,
    })
}

fn llama_shapes(size: Size) -> Vec<(String, Vec<usize>)> {
    let Size { layers, hidden, ffn, vocab } = size;
    let mut shapes = vec![
        ("model.embed_tokens.weight".to_owned(), vec![vocab, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ];
    for layer in 0..layers {
        for (name, shape) in [
            ("input_layernorm", vec![hidden]),
            ("post_attention_layernorm", vec![hidden]),
            ("self_attn.q_proj", vec![hidden, hidden]),
            ("self_attn.k_proj", vec![hidden / 2, hidden]),
            ("self_attn.v_proj", vec![hidden / 2, hidden]),
            ("self_attn.o_proj", vec![hidden, hidden]),
            ("mlp.gate_proj", vec![ffn, hidden]),
            ("mlp.up_proj", vec![ffn, hidden]),
            ("mlp.down_proj", vec![hidden, ffn]),
        ] {
            shapes.push((format!("model.layers.{layer}.{name}.weight"), shape));
        }
    }
    shapes
}

/// Writes a GPT-2 with random f32 weights into `dir`, which is made. It has no tokenizer.
pub fn write_gpt2(dir: &Path, size: Size, seed: u64) {
    let Size { layers, hidden, ffn, vocab } = size;
    let config = json!({
        "model_type": "gpt2", "n_embd": hidden, "n_head": size.heads(), "n_layer": layers, "n_inner": ffn,
        "n_positions": POSITIONS, "vocab_size": vocab, "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
    });
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("transformer.wte.weight".into(), vec![vocab, hidden]),
        ("transformer.wpe.weight".into(), vec![POSITIONS, hidden]),
        ("transformer.ln_f.weight".into(), vec![hidden]),
        ("transformer.ln_f.bias".into(), vec![hidden]),
    ];
    for layer in 0..layers {
        for (name, shape) in [
            ("ln_1.weight", vec![hidden]),
            ("ln_1.bias", vec![hidden]),
            ("ln_2.weight", vec![hidden]),
            ("ln_2.bias", vec![hidden]),
            ("attn.c_attn.weight", vec![hidden, 3 * hidden]),
            ("attn.c_attn.bias", vec![3 * hidden]),
            ("attn.c_proj.weight", vec![hidden, hidden]),
            ("attn.c_proj.bias", vec![hidden]),
            ("mlp.c_fc.weight", vec![hidden, ffn]),
            ("mlp.c_fc.bias", vec![ffn]),
            ("mlp.c_proj.weight", vec![ffn, hidden]),
            ("mlp.c_proj.bias", vec![hidden]),
        ] {
            shapes.push((format!("transformer.h.{layer}.{name}"), shape));
        }
    }
    write(dir, &config, &shapes, seed);
}

/// Writes a Mixtral of `experts` experts, two of them used, with random f32 weights into `dir`, which is made. It has no
/// tokenizer.
pub fn write_mixtral(dir: &Path, size: Size, experts: usize, seed: u64) {
    let mut config = llama_config(size);
    config["model_type"] = json!("mixtral");
    config["num_local_experts"] = json!(experts);
    config["num_experts_per_tok"] = json!(2);
    let mut shapes = llama_shapes(size);
    shapes.retain(|(name, _)| !name.contains(".mlp."));
    let Size { layers, hidden, ffn, .. } = size;
    for layer in 0..layers {
        let of_layer = format!("model.layers.{layer}.block_sparse_moe");
        shapes.push((format!("{of_layer}.gate.weight"), vec![experts, hidden]));
        for expert in 0..experts {
            for (name, shape) in [("w1", [ffn, hidden]), ("w2", [hidden, ffn]), ("w3", [ffn, hidden])] {
                shapes.push((format!("{of_layer}.experts.{expert}.{name}.weight"), shape.to_vec()));
            }
        }
    }
    write(dir, &config, &shapes, seed);
}

fn write(dir: &Path, config: &Value, shapes: &[(String, Vec<usize>)], seed: u64) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("config.json"), format!("{config:#}")).unwrap();
    let largest = shapes.iter().map(|(_, shape)| shape.iter().product::<usize>()).max().unwrap();
    // Tensors are windows of one run of random values: a model of hundreds of megabytes is written at the speed of the disk.
    let values = random_values(largest + 16 * shapes.len(), seed);
    let views = shapes.iter().enumerate().map(|(i, (name, shape))| {
        let (first, count) = (64 * i, 4 * shape.iter().product::<usize>());
        (name, TensorView::new(Dtype::F32, shape.clone(), &values[first..first + count]).unwrap())
    });
    safetensors::serialize_to_file(views, None, &dir.join("model.safetensors")).unwrap();
}

/// Bytes of f32 values, uniform in -0.1 to 0.1 (xorshift64*).
fn random_values(count: usize, seed: u64) -> Vec<u8> {
    // Odd, hence never the zero that the generator would stay at, and another for every seed.
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut bytes = Vec::with_capacity(4 * count);
    for _ in 0..count {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let unit = (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) as f32 / (1u64 << 24) as f32;
        bytes.extend_from_slice(&(0.2 * unit - 0.1).to_le_bytes());
    }
    bytes
}

/// Sets `field` in the `config.json` of `model`.
pub fn change_config(model: &Path, field: &str, value: Value) {
    let path = model.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config[field] = value;
    fs::write(path, config.to_string()).unwrap();
}

/// A safetensors file to damage: its tensors by name, each with type, shape and bytes.
#[derive(Debug, Clone)]
pub struct SafetensorsFile {
    path: PathBuf,
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl SafetensorsFile {
    /// Reads the only weight file of the model in `dir`.
    pub fn of_model(dir: &Path) -> SafetensorsFile {
        let path = dir.join("model.safetensors");
        let bytes = fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let owned = |t: &TensorView<'_>| (t.dtype(), t.shape().to_vec(), t.data().to_vec());
        let tensors = file.tensors().iter().map(|(name, t)| (name.clone(), owned(t))).collect();
        SafetensorsFile { path, tensors }
    }

    /// Replaces the f32 value at `index` of the tensor `name`.
    pub fn set(&mut self, name: &str, index: usize, value: f32) {
        let (dtype, _, bytes) = self.tensors.get_mut(name).unwrap();
        assert_eq!(*dtype, Dtype::F32);
        bytes[4 * index..4 * index + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Makes `value` of all values of the f32 tensor `name`.
    pub fn fill(&mut self, name: &str, value: f32) {
        let (dtype, _, bytes) = self.tensors.get_mut(name).unwrap();
        assert_eq!(*dtype, Dtype::F32);
        bytes.as_chunks_mut::<4>().0.fill(value.to_le_bytes());
    }

    /// Adds or replaces the f32 tensor `name`.
    pub fn put(&mut self, name: &str, shape: &[usize], value: impl Fn(usize) -> f32) {
        let bytes = (0..shape.iter().product()).flat_map(|i| value(i).to_le_bytes()).collect();
        self.tensors.insert(name.to_owned(), (Dtype::F32, shape.to_vec(), bytes));
    }

    /// Replaces the tensor `name` by one of its shape in half precision, of values with these bits.
    pub fn put_half(&mut self, name: &str, bits: impl Fn(usize) -> u16) {
        let (dtype, shape, bytes) = self.tensors.get_mut(name).unwrap();
        *bytes = (0..shape.iter().product()).flat_map(|i| bits(i).to_le_bytes()).collect();
        *dtype = Dtype::F16;
    }

    /// Makes every `step`-th value of the tensor `name`, which is in half or single precision, 32 times as large.
    pub fn enlarge(&mut self, name: &str, step: usize) {
        let (dtype, _, bytes) = self.tensors.get_mut(name).unwrap();
        if *dtype == Dtype::F32 {
            for value in bytes.as_chunks_mut::<4>().0.iter_mut().step_by(step) {
                *value = (32.0 * f32::from_le_bytes(*value)).to_le_bytes();
            }
            return;
        }
        assert_eq!(*dtype, Dtype::F16);
        for value in bytes.as_chunks_mut::<2>().0.iter_mut().step_by(step) {
            let bits = u16::from_le_bytes(*value);
            // In the exponent, of numbers that are neither subnormal nor too large.
            if (1..=24).contains(&(bits >> 10 & 31)) {
                *value = (bits + (5 << 10)).to_le_bytes();
            }
        }
    }

    /// Makes the tensor `to` the same as the tensor `name`.
    pub fn copy(&mut self, name: &str, to: &str) {
        let tensor = self.tensors[name].clone();
        self.tensors.insert(to.to_owned(), tensor);
    }

    /// Takes the tensor `name` out.
    pub fn remove(&mut self, name: &str) {
        assert!(self.tensors.remove(name).is_some(), "{name} was there");
    }

    /// Says that the tensor `name` has another shape of as many values.
    pub fn reshape(&mut self, name: &str, shape: &[usize]) {
        self.tensors.get_mut(name).unwrap().1 = shape.to_vec();
    }

    /// Names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Writes it back where it came from.
    pub fn save(&self) {
        self.save_some(&self.path, |_| true);
    }

    /// Writes the tensors whose names `choose` likes to `path`.
    pub fn save_some(&self, path: &Path, choose: impl Fn(&str) -> bool) {
        let chosen = self.tensors.iter().filter(|(name, _)| choose(name));
        let views = chosen.map(|(name, (dtype, shape, bytes))| {
            (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
    }
}
