//! Hostile weights beside a sound configuration: as they are, then with the sizes of header and data made right.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::models::{gpt2_config, llama_config};
use qsf_fuzz::open_and_load;
use serde::de::IgnoredAny;
use serde_json::Value;

/// Data is padded up to this.
const MAX_DATA_BYTES: usize = 1 << 16;

static LLAMA: LazyLock<String> = LazyLock::new(|| llama_config().to_string());
static GPT2: LazyLock<String> = LazyLock::new(|| gpt2_config().to_string());

fuzz_target!(|weights: &[u8]| {
    let gpt2 = weights.windows(4).any(|four| four == b"ln_f");
    let config = if gpt2 { GPT2.as_bytes() } else { LLAMA.as_bytes() };
    let open = |weights: &[u8]| {
        let _ = open_and_load(&[("config.json", config), ("model.safetensors", weights)]);
    };
    open(weights);
    if let Some(repaired) = repair(weights) {
        open(&repaired);
    }
});

/// The JSON of the header with its true length before it, and as much data behind it as it asks for.
fn repair(weights: &[u8]) -> Option<Vec<u8>> {
    let rest = weights.get(8..)?;
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let (header, data) = rest.split_at(values.byte_offset());
    let mut repaired = (header.len() as u64).to_le_bytes().to_vec();
    repaired.extend_from_slice(header);
    let Ok(Value::Object(tensors)) = serde_json::from_slice(header) else { return Some(repaired) };
    let end = |tensor: &Value| tensor.get("data_offsets")?.get(1)?.as_u64();
    let wanted = tensors.values().filter_map(end).max().unwrap_or(0);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(MAX_DATA_BYTES);
    repaired.extend(data.iter().copied().chain(std::iter::repeat(0)).take(wanted));
    Some(repaired)
}
