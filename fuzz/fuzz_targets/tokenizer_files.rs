//! Tokenizers in other files than `tokenizer.json`: SentencePiece models, GGUF vocabularies, merges.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::{dir_of, must_say_something};
use qsf_runtime::Result;
use qsf_runtime::tokenizer::{Definition, Tokenizer, open_tokenizer, self_check};

const CONFIG: &[u8] = br#"{"tokenizer_class": "GPT2Tokenizer"}"#;
const VOCAB: &[u8] = br#"{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}"#;

fuzz_target!(|bytes: &[u8]| {
    for result in [sentencepiece(bytes), gguf(bytes), merges(bytes)] {
        if let Err(error) = result {
            must_say_something(&error);
        }
    }
});

fn sentencepiece(bytes: &[u8]) -> Result<()> {
    let definition = Definition::from_sentencepiece(Path::new("tokenizer.model"), bytes)?;
    let tokenizer = Tokenizer::from_json(&definition.to_json()?, Path::new("tokenizer.model"))?;
    self_check(&definition, &tokenizer, true).map(drop)
}

fn gguf(bytes: &[u8]) -> Result<()> {
    let dir = dir_of(&[("vocab.gguf", bytes)]);
    open_tokenizer(&dir.path().join("vocab.gguf"))?.encode("ab <s>").map(drop)
}

fn merges(bytes: &[u8]) -> Result<()> {
    let dir = dir_of(&[("vocab.json", VOCAB), ("merges.txt", bytes), ("tokenizer_config.json", CONFIG)]);
    open_tokenizer(dir.path())?.encode("ab <s>").map(drop)
}
