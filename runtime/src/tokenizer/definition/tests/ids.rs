//! Ids that other programs give to the same texts.
//!
//! `real.json` and `small.json` were made by the Python packages sentencepiece 0.2.3 and tokenizers 0.23 from the vocabularies
//! that they name; the small models beside them were trained by sentencepiece.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokenizer/definition/fixtures").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn small_models_of_every_kind_give_the_ids_of_sentencepiece() {
    let small = json("small.json");
    let texts: Vec<String> = serde_json::from_value(small["texts"].clone()).unwrap();
    for (name, expected) in small["ids"].as_object().unwrap() {
        let path = fixture(&format!("{name}.model"));
        let mut tokenizer =
            Tokenizer::from_json(&model_at(&path).unwrap().to_json().unwrap(), &path).unwrap();
        tokenizer.parse_special(false);
        for (text, expected) in texts.iter().zip(expected.as_array().unwrap()) {
            assert_eq!(tokenizer.encode_plain(text).unwrap(), ids(expected), "{name}: {text:?}");
        }
    }
}

#[test]
fn small_models_agree_with_the_reference_encoders() {
    for name in ["bpe", "bpe_no_prefix", "unigram", "unigram_rules"] {
        let tokenizer = tokenizer_of(&model_at(&fixture(&format!("{name}.model"))).unwrap());
        assert_eq!(tokenizer.bos(), name.starts_with("bpe").then_some(1), "{name}");
    }
}

#[test]
fn what_the_library_cannot_do_is_reported_by_the_self_check() {
    // A text that begins with a piece that is never split: the library cuts it out before the space goes in front.
    let definition = model_at(&fixture("bpe_user_defined.model")).unwrap();
    let tokenizer = Tokenizer::from_json(&definition.to_json().unwrap(), definition.path()).unwrap();
    assert_eq!(self_check(&definition, &tokenizer, false).unwrap(), None);
    let difference = self_check(&definition, &tokenizer, true).unwrap().unwrap();
    assert!(difference.text.starts_with("\t\ttabs"), "{difference:?}");
    assert_eq!(difference.expected[1..], difference.found[..7]);
}

#[test]
fn text_comes_back_as_it_was() {
    let real = json("real.json");
    let text = real["text"].as_str().unwrap();
    for name in ["bpe", "bpe_no_prefix", "unigram"] {
        let tokenizer = tokenizer_of(&model_at(&fixture(&format!("{name}.model"))).unwrap());
        // The mark is a space to SentencePiece, in both directions.
        let expected = text.replace('▁', " ");
        assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap(), true).unwrap(), expected, "{name}");
    }
}
