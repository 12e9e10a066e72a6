//! Calibration of a source model on a text, before it is converted.

use qsf_calibration::{Detail, collect};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use qsf_runtime::tokenizer::Tokenizer;

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
    let tokens = &tokens[..tokens.len().min(max_tokens)];
    let stats = collect(source, cpu, tokens, Detail::Diagonal, progress, cancel)?;
    Ok(Calibration { stats, text_sha256: sha256(text.as_bytes()) })
}
