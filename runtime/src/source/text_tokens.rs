//! The tokenizer that a source comes with, for texts that the model is to read.

use super::WeightSource;
use crate::error::{Result, RuntimeError};
use crate::tokenizer::Tokenizer;

/// The tokenizer of `source`; `text` is what it is needed for, in messages: "the calibration text".
///
/// # Errors
/// When the source has none, or one that cannot be read.
pub fn tokenizer_of(source: &dyn WeightSource, text: &str) -> Result<Tokenizer> {
    let json = source.tokenizer_json().ok_or_else(|| {
        let expected = format!("a tokenizer for {text}");
        RuntimeError::bad_input(source.path(), "tokenizer.json", expected, "none")
    })?;
    Tokenizer::from_json(json, source.path())
}
