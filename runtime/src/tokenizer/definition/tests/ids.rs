//! Ids that other programs give to the same texts.
//!
//! `real.json` and `small.json` were made by the Python packages sentencepiece 0.2.3 and tokenizers 0.23 from the vocabularies
//! that they name; the small models beside them were trained by sentencepiece.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::GgufTokenizer;
use super::*;
use crate::source::gguf::GgufFile;
use crate::test_data::shared;
use crate::tokenizer::{open_tokenizer, read_gguf_tokenizer};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokenizer/definition/fixtures").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn gguf(path: &Path) -> GgufTokenizer {
    read_gguf_tokenizer(&GgufFile::open(path).unwrap().metadata).unwrap().unwrap()
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

#[test]
fn real_vocabularies_give_the_ids_of_the_python_packages() {
    let real = json("real.json");
    let text = real["text"].as_str().unwrap();
    for case in real["cases"].as_array().unwrap() {
        for name in case["tokenizers"].as_array().unwrap() {
            let Some(path) = shared(name.as_str().unwrap()) else { continue };
            let tokenizer = open_tokenizer(&path).unwrap();
            assert_eq!(tokenizer.encode_plain(text).unwrap(), ids(&case["ids"]), "{name}");
        }
    }
}

#[test]
fn the_test_texts_of_llama_cpp_give_its_ids() {
    let origins = [
        ("falcon", "vocab/ggml-vocab-falcon.gguf"),
        ("gpt-2", "vocab/ggml-vocab-gpt-2.gguf"),
        ("llama-spm", "vocab/ggml-vocab-llama-spm.gguf"),
        ("llama-spm", "tokenizers/llama2"),
        ("phi-3", "vocab/ggml-vocab-phi-3.gguf"),
        ("qwen2", "tokenizers/qwen2.5"),
    ];
    for (name, origin) in origins {
        let Some(path) = shared(origin) else { continue };
        let file =
            |end: &str| fs::read_to_string(shared(&format!("vocab/ggml-vocab-{name}.gguf.{end}")).unwrap());
        let (texts, ids) = (file("inp").unwrap(), file("out").unwrap());
        let tokenizer = open_tokenizer(&path).unwrap();
        let mut count = 0;
        for (text, expected) in texts.split("\n__ggml_vocab_test__\n").zip(ids.lines()) {
            let expected: Vec<u32> = expected.split_whitespace().map(|id| id.parse().unwrap()).collect();
            assert_eq!(tokenizer.encode_plain(text).unwrap(), expected, "{origin}: {text:?}");
            count += 1;
        }
        assert!(count > 40, "{count} texts");
    }
}

#[test]
fn real_definitions_agree_with_the_reference_encoders() {
    let names =
        ["vocab/ggml-vocab-falcon.gguf", "vocab/ggml-vocab-gpt-2.gguf", "vocab/ggml-vocab-phi-3.gguf"];
    for name in names.into_iter().chain(["gguf/stories260K.gguf"]) {
        if let Some(path) = shared(name) {
            tokenizer_of(&gguf(&path).definition);
        }
    }
    for name in ["tokenizers/llama2", "tokenizers/qwen2.5"] {
        if let Some(path) = shared(name) {
            tokenizer_of(&find_tokenizer(&path).unwrap().unwrap().definition.unwrap());
        }
    }
}

#[test]
fn what_a_gguf_file_says_beside_the_vocabulary_is_kept() {
    let Some(path) = shared("vocab/ggml-vocab-phi-3.gguf") else { return };
    let found = gguf(&path);
    // </s>, <|endoftext|> (eos) and <|end|>.
    assert_eq!(found.stop_tokens, [2, 32000, 32007]);
    let tokenizer = tokenizer_of(&found.definition);
    assert_eq!(tokenizer.bos(), Some(1));
    let prompt = "<|user|>\nHi<|end|>\n<|assistant|>\n";
    // The ids of its own tokenizer.json, whose special tokens swallow the line breaks after them.
    assert_eq!(tokenizer.encode(prompt).unwrap(), [1, 32010, 6324, 32007, 32001]);
    let Some(path) = shared("vocab/ggml-vocab-gpt-2.gguf") else { return };
    assert_eq!(tokenizer_of(&gguf(&path).definition).bos(), None);
}

#[test]
fn a_megabyte_without_words_is_encoded_in_seconds() {
    let origins = ["tokenizers/llama2", "tokenizers/qwen2.5", "vocab/ggml-vocab-falcon.gguf"];
    for path in origins.into_iter().filter_map(shared) {
        let tokenizer = open_tokenizer(&path).unwrap();
        for letter in ["a", " ", "\n", "7"] {
            let text = letter.repeat(1 << 20);
            let start = Instant::now();
            assert!(!tokenizer.encode(&text).unwrap().is_empty());
            let took = start.elapsed();
            // Generous, for other work on the machine; what must not happen is a time that grows with the square.
            assert!(took < Duration::from_secs(20), "{}: {letter:?}: {took:?}", path.display());
        }
    }
}

#[test]
fn a_vocabulary_in_two_files_gives_the_ids_of_the_same_one_in_tokenizer_json() {
    let (Some(dir), Some(text)) = (shared("models/gpt2-17m"), shared("text/heldout.txt")) else { return };
    let path = dir.join("tokenizer.json");
    let original: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let two = tempfile::tempdir().unwrap();
    fs::write(two.path().join("vocab.json"), original["model"]["vocab"].to_string()).unwrap();
    let line = |merge: &Value| match merge {
        Value::String(line) => line.clone(),
        pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
    };
    let merges = original["model"]["merges"].as_array().unwrap().iter().map(line).collect::<Vec<_>>();
    fs::write(two.path().join("merges.txt"), format!("#version: 0.2\n{}\n", merges.join("\n"))).unwrap();
    fs::write(two.path().join("tokenizer_config.json"), r#"{"tokenizer_class": "GPT2TokenizerFast"}"#)
        .unwrap();
    let found = find_tokenizer(two.path()).unwrap().unwrap();
    assert_eq!(found.files.len(), 3, "{:?}", found.files);
    let text = fs::read_to_string(text).unwrap();
    assert_eq!(
        tokenizer_of(&found.definition.unwrap()).encode_plain(&text).unwrap(),
        open_tokenizer(&path).unwrap().encode_plain(&text).unwrap()
    );
}
