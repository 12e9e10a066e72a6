//! The calibration text: what tells which errors of the weights matter.

use std::path::PathBuf;

use qsf_calibration::{Document, document_text, read_documents, tokenize};
use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;
use qsf_runtime::tokenizer::Tokenizer;

use crate::error::Result;
use crate::options::Calibration;
use crate::provenance::sha256;

/// What stands in for a calibration text where none is given: prose of a book in the public domain, and technical text and
/// code of this project.
const DEFAULT_TEXT: &str = include_str!("../data/calibration.txt");

/// Tokens that a model of any size gets, and most of them.
const TOKENS: std::ops::RangeInclusive<u64> = 32_768..=131_072;
/// Tokens times weights that a default may come to: on two cores a few minutes of arithmetic.
const MOST_WORK: u64 = 1 << 43;

/// The first `max_tokens` tokens of the files, text or JSONL, by the tokenizer of `source`; of a built-in text where there
/// are none. Several files get even shares. Without `max_tokens`, as many as a model of this size is worth waiting for: more
/// text makes the moments of inputs surer, and time goes with tokens times weights.
///
/// # Errors
/// When a file cannot be read, the source has no tokenizer, or the text is empty.
pub fn calibrate(
    source: &dyn WeightSource,
    files: &[PathBuf],
    max_tokens: Option<usize>,
) -> Result<Calibration> {
    let json = source.tokenizer_json().ok_or_else(|| {
        let expected = "a tokenizer for the calibration text";
        RuntimeError::bad_input(source.path(), "tokenizer.json", expected, "none")
    })?;
    let text_of = |document: &Document| document_text(document, None);
    let mut texts: Vec<Vec<String>> = files
        .iter()
        .map(|path| read_documents(path)?.iter().map(text_of).collect())
        .collect::<qsf_runtime::Result<_>>()?;
    if texts.is_empty() {
        texts.push(vec![DEFAULT_TEXT.to_owned()]);
    }
    let tokenizer = Tokenizer::from_json(json, source.path())?;
    let tokens = tokenize(&tokenizer, &texts, max_tokens.unwrap_or_else(|| default_tokens(source)))?;
    if tokens.is_empty() {
        return Err(RuntimeError::Request("the calibration text is empty".into()).into());
    }
    Ok(Calibration { tokens, text_sha256: sha256(texts.concat().concat().as_bytes()) })
}

fn default_tokens(source: &dyn WeightSource) -> usize {
    let weights: u64 = source.tensors().iter().map(|t| t.rows as u64 * t.cols as u64).sum();
    (MOST_WORK / weights.max(1)).clamp(*TOKENS.start(), *TOKENS.end()) as usize
}
