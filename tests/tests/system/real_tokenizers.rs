//! Tokenizers of models in use: the ids that other programs give to the same texts, at a speed that long texts allow.
//!
//! The fixture `real.json` was made by the Python packages sentencepiece 0.2.3 and tokenizers 0.23 from the vocabularies that
//! it names.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use qsf_runtime::source::gguf::GgufFile;
use qsf_runtime::tokenizer::{
    Definition, GgufTokenizer, Tokenizer, find_tokenizer, open_tokenizer, read_gguf_tokenizer, self_check,
};
use qsf_tests::*;
use serde_json::Value;

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// What the Python packages made.
fn real() -> Value {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src/tokenizer/definition/fixtures");
    json_of(&fixtures.join("real.json"))
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn gguf(path: &Path) -> GgufTokenizer {
    read_gguf_tokenizer(&GgufFile::open(path).unwrap().metadata).unwrap().unwrap()
}

/// The tokenizer of a definition, after the self-check of it.
fn tokenizer_of(definition: &Definition) -> Tokenizer {
    let tokenizer = Tokenizer::from_json(&definition.to_json().unwrap(), definition.path()).unwrap();
    let difference = self_check(definition, &tokenizer, true).unwrap();
    assert_eq!(difference, None, "{}", definition.path().display());
    tokenizer
}

/// The text of tokens that come one at a time.
fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut stream = tokenizer.stream();
    let mut text = String::new();
    for &id in ids {
        text.extend(stream.push(id).unwrap());
    }
    text.extend(stream.finish().unwrap());
    text
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn prompts_and_continuations_of_the_reference_come_out_the_same() {
    for model in ["llama-53m", "gpt2-17m", "demo-1m"] {
        let dir = shared(&format!("models/{model}"));
        let json = fs::read(dir.join("tokenizer.json")).unwrap();
        let tokenizer = Tokenizer::from_json(&json, &dir.join("tokenizer.json")).unwrap();
        let reference = json_of(&dir.join("reference.json"));
        let cases = reference["greedy"].as_array().unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            assert_eq!(tokenizer.encode(case["prompt"].as_str().unwrap()).unwrap(), ids(&case["prompt_ids"]));
            let greedy = ids(&case["greedy_ids"]);
            assert_eq!(tokenizer.decode(&greedy, false).unwrap(), case["text"].as_str().unwrap(), "{model}");
            assert_eq!(streamed(&tokenizer, &greedy), tokenizer.decode(&greedy, true).unwrap());
        }
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn real_tokenizers_stream_text_in_many_scripts_unchanged() {
    let names = ["models/demo-1m", "tokenizers/gpt2", "tokenizers/falcon", "tokenizers/phi-3-mini"];
    for name in names {
        let path = shared(&format!("{name}/tokenizer.json"));
        let tokenizer = Tokenizer::from_json(&fs::read(&path).unwrap(), &path).unwrap();
        for text in ["Grüße, 世界! 🦀🦀 नमस्ते", "  indented\n\n\tcode()", " x", "👩‍👩‍👧‍👦"]
        {
            let ids = tokenizer.encode(text).unwrap();
            assert_eq!(streamed(&tokenizer, &ids), tokenizer.decode(&ids, true).unwrap(), "{name}: {text}");
        }
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn half_a_megabyte_is_encoded_in_about_a_second() {
    let (path, text) = (shared("models/llama-53m/tokenizer.json"), shared("text/heldout.txt"));
    let tokenizer = Tokenizer::from_json(&fs::read(&path).unwrap(), &path).unwrap();
    let text = fs::read_to_string(text).unwrap();
    let start = Instant::now();
    let ids = tokenizer.encode(&text).unwrap();
    let took = start.elapsed();
    println!("{} bytes, {} tokens, {took:?}", text.len(), ids.len());
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    // Generous, for other work on the machine; what must not happen is a time that grows with the square.
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn real_vocabularies_give_the_ids_of_the_python_packages() {
    let real = real();
    let text = real["text"].as_str().unwrap();
    for case in real["cases"].as_array().unwrap() {
        for name in case["tokenizers"].as_array().unwrap() {
            let path = shared(name.as_str().unwrap());
            let tokenizer = open_tokenizer(&path).unwrap();
            assert_eq!(tokenizer.encode_plain(text).unwrap(), ids(&case["ids"]), "{name}");
        }
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
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
        let path = shared(origin);
        let file =
            |end: &str| fs::read_to_string(shared(&format!("vocab/ggml-vocab-{name}.gguf.{end}"))).unwrap();
        let (texts, ids) = (file("inp"), file("out"));
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
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn real_definitions_agree_with_the_reference_encoders() {
    let names =
        ["vocab/ggml-vocab-falcon.gguf", "vocab/ggml-vocab-gpt-2.gguf", "vocab/ggml-vocab-phi-3.gguf"];
    for name in names.into_iter().chain(["gguf/stories260K.gguf"]) {
        tokenizer_of(&gguf(&shared(name)).definition);
    }
    for name in ["tokenizers/llama2", "tokenizers/qwen2.5"] {
        tokenizer_of(&find_tokenizer(&shared(name)).unwrap().unwrap().definition.unwrap());
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn what_a_gguf_file_says_beside_the_vocabulary_is_kept() {
    let path = shared("vocab/ggml-vocab-phi-3.gguf");
    let found = gguf(&path);
    // </s>, <|endoftext|> (eos) and <|end|>.
    assert_eq!(found.stop_tokens, [2, 32000, 32007]);
    let tokenizer = tokenizer_of(&found.definition);
    assert_eq!(tokenizer.bos(), Some(1));
    let prompt = "<|user|>\nHi<|end|>\n<|assistant|>\n";
    // The ids of its own tokenizer.json, whose special tokens swallow the line breaks after them.
    assert_eq!(tokenizer.encode(prompt).unwrap(), [1, 32010, 6324, 32007, 32001]);
    let path = shared("vocab/ggml-vocab-gpt-2.gguf");
    assert_eq!(tokenizer_of(&gguf(&path).definition).bos(), None);
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn a_megabyte_without_words_is_encoded_in_seconds() {
    let origins = ["tokenizers/llama2", "tokenizers/qwen2.5", "vocab/ggml-vocab-falcon.gguf"];
    for path in origins.into_iter().map(shared) {
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
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn a_vocabulary_in_two_files_gives_the_ids_of_the_same_one_in_tokenizer_json() {
    let (dir, text) = (shared("models/gpt2-17m"), shared("text/heldout.txt"));
    let path = dir.join("tokenizer.json");
    let original = json_of(&path);
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
