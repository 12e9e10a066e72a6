//! A hostile `pytorch_model.bin` beside a sound configuration: the bytes as the file, then as the pickle in a sound file.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::models::llama_config;
use qsf_fuzz::open_and_load;
use qsf_fuzz::torch::checkpoint;

static CONFIG: LazyLock<String> = LazyLock::new(|| llama_config().to_string());

fuzz_target!(|bytes: &[u8]| {
    let open = |weights: &[u8]| {
        let _ = open_and_load(&[("config.json", CONFIG.as_bytes()), ("pytorch_model.bin", weights)]);
    };
    open(bytes);
    open(&checkpoint(bytes));
});
