//! Tests of the origins of tokenizers: the ids of other programs, and files that are damaged or crafted.

mod crafted_gguf;
mod crafted_models;
mod ids;
mod word_files;

use std::path::Path;

use super::{Definition, TokenizerConfig, find_tokenizer, read_model};
use crate::error::Result;
use crate::tokenizer::{Tokenizer, self_check};

/// The tokenizer of a definition, after the self-check of it.
fn tokenizer_of(definition: &Definition) -> Tokenizer {
    let tokenizer = Tokenizer::from_json(&definition.to_json().unwrap(), definition.path()).unwrap();
    let difference = self_check(definition, &tokenizer, true).unwrap();
    assert_eq!(difference, None, "{}", definition.path().display());
    tokenizer
}

/// Asserts that an error came at once, says this, and can be shown.
fn refused<T>(run: impl FnOnce() -> Result<T>, part_of_message: &str) {
    let start = std::time::Instant::now();
    let Err(error) = run() else { panic!("accepted; expected {part_of_message:?}") };
    let message = error.to_string();
    assert!(start.elapsed().as_secs_f32() < 1.0, "{message}: {:?}", start.elapsed());
    assert!(message.contains(part_of_message), "{part_of_message:?} in {message:?}");
    assert!(message.len() < 2000 && !message.contains(|c: char| c.is_control()), "{message:?}");
}

/// The `tokenizer.model` at `path`, alone.
fn model_at(path: &Path) -> Result<Definition> {
    read_model(path, &TokenizerConfig::default())
}
