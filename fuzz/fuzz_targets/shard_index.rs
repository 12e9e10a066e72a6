//! A hostile `model.safetensors.index.json` beside two sound shards.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::models::{llama_config, llama_shapes, safetensors_file};
use qsf_fuzz::open_and_load;

static CONFIG: LazyLock<String> = LazyLock::new(|| llama_config().to_string());
static SHARDS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let shapes = llama_shapes();
    let (first, second) = shapes.split_at(1);
    [safetensors_file(first), safetensors_file(second)]
});

fuzz_target!(|index: &[u8]| {
    let _ = open_and_load(&[
        ("config.json", CONFIG.as_bytes()),
        ("a.safetensors", &SHARDS[0]),
        ("b.safetensors", &SHARDS[1]),
        ("model.safetensors.index.json", index),
    ]);
});
