//! The calibration text: what tells which errors of the weights matter.

use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;
use qsf_runtime::tokenizer::Tokenizer;

use crate::error::Result;
use crate::options::Calibration;
use crate::provenance::sha256;

/// What stands in for a calibration text where none is given: prose of a book in the public domain, and technical text and
/// code of this project.
pub const DEFAULT_CALIBRATION_TEXT: &str = include_str!("../data/calibration.txt");

/// The first `max_tokens` tokens of `text`, by the tokenizer of `source`.
///
/// # Errors
/// When the source has no tokenizer, or the text is empty.
pub fn calibrate(source: &dyn WeightSource, text: &str, max_tokens: usize) -> Result<Calibration> {
    let json = source.tokenizer_json().ok_or_else(|| {
        let expected = "a tokenizer for the calibration text";
        RuntimeError::bad_input(source.path(), "tokenizer.json", expected, "none")
    })?;
    let mut tokens = Tokenizer::from_json(json, source.path())?.encode(text)?;
    tokens.truncate(max_tokens);
    if tokens.is_empty() {
        return Err(RuntimeError::Request("the calibration text is empty".into()).into());
    }
    Ok(Calibration { tokens, text_sha256: sha256(text.as_bytes()) })
}
