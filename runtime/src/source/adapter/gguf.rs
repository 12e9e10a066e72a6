//! Adapters in GGUF files, as llama.cpp's `convert_lora_to_gguf.py` writes them.

use std::path::Path;

use qsf_format::ModelConfig;
use qsf_format::printable::quote;

use super::pairs::{Ends, Pairs, refuse_other, wrong};
use super::update::Update;
use crate::error::{Result, RuntimeError};
use crate::gguf::GgufFile;
use crate::source::gguf::{GgufNames, Store};

const ENDS: Ends = Ends { down: ".weight.lora_a", up: ".weight.lora_b" };
const INVOCATION: &str = "adapter.alora.invocation_tokens";

/// Reads the adapter in a file.
pub(super) fn read(path: &Path, config: &ModelConfig, scale: f32) -> Result<Vec<Update>> {
    let file = GgufFile::open(path)?;
    let metadata = &file.metadata;
    for (key, expected) in [("general.type", "adapter"), ("adapter.type", "lora")] {
        let found = metadata.need_str(key)?;
        if found != expected {
            return Err(metadata.wrong(key, quote(expected), quote(found)));
        }
    }
    if metadata.contains(INVOCATION) {
        let what = "an adapter that begins within a text (aLoRA)";
        return Err(RuntimeError::unsupported(path, what, "adapters that are always on can be applied"));
    }
    let names = GgufNames::of(config).ok_or_else(|| {
        let what = format!("an adapter of a {} model in GGUF", config.architecture);
        RuntimeError::unsupported(path, what, format!("supported: {}", GgufNames::model_types().join(", ")))
    })?;
    let architecture = metadata.need_str("general.architecture")?;
    if architecture != names.architecture() {
        let expected = format!("{}, as the model is", quote(names.architecture()));
        return Err(metadata.wrong("general.architecture", expected, quote(architecture)));
    }
    let alpha = metadata.f32("adapter.lora.alpha")?.unwrap_or(0.0);
    if !alpha.is_finite() {
        return Err(metadata.wrong("adapter.lora.alpha", "a finite number", alpha));
    }
    let store = Store::new(file, names.table())?;
    let Pairs { pairs, others } = Pairs::of(&store, &ENDS)?;
    if let Some(name) = others.first() {
        let why = "pairs named NAME.weight.lora_a and NAME.weight.lora_b are read";
        return Err(refuse_other(path, name, why));
    }
    let mut updates = Vec::new();
    for pair in &pairs {
        let module = pair.module(names.table(), config, pair.name)?;
        if !module.prefix.is_empty() {
            let name = format!("{}{}", pair.name, ENDS.down);
            return Err(wrong(&store, &name, "the name of a matrix", quote(pair.name)));
        }
        // As llama.cpp has it: without alpha, the product counts as it is.
        let own = if alpha == 0.0 { 1.0 } else { alpha / pair.rank as f32 };
        updates.extend(pair.updates(&module, pair.name, scale * own)?);
    }
    Ok(updates)
}
