//! A hostile `config.json` beside sound weights.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::models::{gpt2_shapes, llama_shapes, safetensors_file};
use qsf_fuzz::open_and_load;

static LLAMA: LazyLock<Vec<u8>> = LazyLock::new(|| safetensors_file(&llama_shapes()));
static GPT2: LazyLock<Vec<u8>> = LazyLock::new(|| safetensors_file(&gpt2_shapes()));

fuzz_target!(|config: &[u8]| {
    let gpt2 = config.windows(4).any(|four| four == b"gpt2");
    let weights = if gpt2 { &*GPT2 } else { &*LLAMA };
    let _ = open_and_load(&[("config.json", config), ("model.safetensors", weights)]);
});
