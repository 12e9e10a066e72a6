//! Calibration of a source model on a text, before it is converted.

use std::sync::Arc;

use qsf_calibration::collect;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use qsf_runtime::tokenizer::Tokenizer;
use qsf_runtime::{Activations, Decoder, Model, RuntimeError};

use crate::error::Result;
use crate::pipeline::Calibration;
use crate::provenance::sha256;

/// Runs the first `max_tokens` tokens of `text` through `source` at full precision.
///
/// # Errors
/// When the source has no tokenizer, the text is empty, or the user interrupts.
pub fn calibrate(
    source: &dyn WeightSource,
    text: &str,
    max_tokens: usize,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Calibration> {
    let json = source.tokenizer_json().ok_or_else(|| {
        RuntimeError::bad_input(
            source.path(),
            "tokenizer.json",
            "a tokenizer for the calibration text",
            "none",
        )
    })?;
    let tokens = Tokenizer::from_json(json, source.path())?.encode(text)?;
    let model = Arc::new(Model::load(source)?);
    let decoder = Decoder::new(model, cpu.clone(), Some(Activations::F32)).stop_on(cancel);
    let stats = collect(&decoder, &tokens[..tokens.len().min(max_tokens)], progress)?;
    Ok(Calibration { stats, text_sha256: sha256(text.as_bytes()) })
}
