//! A hostile `adapter_config.json`; a hostile file of pairs beside a sound one; a hostile adapter in GGUF.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use qsf_format::ModelConfig;
use qsf_fuzz::models::{llama_config, safetensors_file};
use qsf_fuzz::{dir_of, must_say_something};
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::adapter::Adapter;
use qsf_runtime::source::configured_model;

static MODEL: LazyLock<ModelConfig> = LazyLock::new(|| {
    configured_model(Path::new("config.json"), llama_config().to_string().as_bytes()).expect("a model").0
});

static PAIRS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let name = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
    let [down, up] = ["A", "B"].map(|side| format!("{name}{side}.weight"));
    safetensors_file(&[(down.as_str(), vec![2, 8]), (up.as_str(), vec![8, 2])])
});

const CONFIG: &[u8] = br#"{"peft_type": "LORA", "r": 2, "lora_alpha": 4}"#;

fuzz_target!(|bytes: &[u8]| {
    let files: [&[(&str, &[u8])]; 2] = [
        &[("adapter_config.json", bytes), ("adapter_model.safetensors", PAIRS.as_slice())],
        &[("adapter_config.json", CONFIG), ("adapter_model.safetensors", bytes)],
    ];
    for files in files {
        open(dir_of(files).path());
    }
    open(&dir_of(&[("adapter.gguf", bytes)]).path().join("adapter.gguf"));
});

fn open(path: &Path) {
    match Adapter::open(path, &MODEL, 1.0) {
        Ok(adapter) => {
            for update in &adapter.updates {
                let [_, inputs] = update.low_rank.shape();
                update.low_rank.add_to_row(Isa::best(), 0, &mut vec![0.0; inputs]);
            }
        }
        Err(error) => must_say_something(&error),
    }
}
