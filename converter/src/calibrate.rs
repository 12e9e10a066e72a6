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

/// The first `max_tokens` tokens of the files, text or JSONL, by the tokenizer of `source`; of a built-in text where there
/// are none. Several files get even shares.
///
/// # Errors
/// When a file cannot be read, the source has no tokenizer, or the text is empty.
pub fn calibrate(source: &dyn WeightSource, files: &[PathBuf], max_tokens: usize) -> Result<Calibration> {
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
    let tokens = tokenize(&tokenizer, &texts, max_tokens)?;
    if tokens.is_empty() {
        return Err(RuntimeError::Request("the calibration text is empty".into()).into());
    }
    Ok(Calibration { tokens, text_sha256: sha256(texts.concat().concat().as_bytes()) })
}
