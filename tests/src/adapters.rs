//! Adapters with made-up values, as PEFT saves them.

use std::fs;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;

/// Rank of what is written here.
const RANK: usize = 4;

/// Modules of a layer of the embedded model, their outputs and inputs.
const MODULES: [(&str, usize, usize); 3] =
    [("self_attn.q_proj", 128, 128), ("mlp.up_proj", 384, 128), ("mlp.down_proj", 128, 384)];

/// Writes an adapter for some matrices of each layer of the embedded model into `dir`, which is made.
pub fn demo_adapter(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    let config = json!({ "peft_type": "LORA", "r": RANK, "lora_alpha": 8, "target_modules": ["q_proj"] });
    fs::write(dir.join("adapter_config.json"), config.to_string()).unwrap();
    let mut tensors = Vec::new();
    for layer in 0..4 {
        for (module, outputs, inputs) in MODULES {
            for (side, shape) in [("A", [RANK, inputs]), ("B", [outputs, RANK])] {
                let name = format!("base_model.model.model.layers.{layer}.{module}.lora_{side}.weight");
                let value = |i: usize| ((i * 37 + 11 * layer) % 101) as f32 / 1000.0 - 0.05;
                let bytes: Vec<u8> = (0..shape[0] * shape[1]).flat_map(|i| value(i).to_le_bytes()).collect();
                tensors.push((name, shape, bytes));
            }
        }
    }
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap()));
    fs::write(dir.join("adapter_model.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
}
