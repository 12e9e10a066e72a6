//! `vocab.json` and `merges.txt`, right and wrong.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::super::FoundTokenizer;
use super::*;

const CONFIG: &str = r#"{"tokenizer_class": "Qwen2Tokenizer"}"#;
const VOCAB: &str = r#"{"a": 0, "b": 1, "ab": 2, "Ġ": 3, "<|endoftext|>": 4}"#;

fn dir(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn find(vocab: &str, merges: &str, config: &str) -> Result<FoundTokenizer> {
    let dir = dir(&[("vocab.json", vocab), ("merges.txt", merges), ("tokenizer_config.json", config)]);
    find_tokenizer(dir.path()).map(Option::unwrap)
}

fn tokenizer(found: &FoundTokenizer) -> Tokenizer {
    Tokenizer::from_json(&found.json, Path::new("tokenizer.json")).unwrap()
}

#[test]
fn added_tokens_keep_their_ids_also_where_ids_are_left_out() {
    let config = r#"{"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": true, "bos_token": "<s>",
        "added_tokens_decoder": {"9": {"content": "<s>", "special": true}, "7": {"content": "<tool>", "special": false}}}"#;
    let found = find(VOCAB, "#version: 0.2\na b\n", config).unwrap();
    let tokenizer = tokenizer(&found);
    assert_eq!(tokenizer.encode("ab<tool> a<|endoftext|>").unwrap(), [9, 2, 7, 3, 0, 4]);
    assert_eq!(tokenizer.bos(), Some(9));
    assert_eq!(tokenizer.decode(&[9, 2, 7, 4], true).unwrap(), "ab<tool>");
    let mut as_text = tokenizer;
    as_text.parse_special(false);
    assert_eq!(as_text.encode_plain("a<|endoftext|>b").unwrap(), [0, 1], "no token for < and the rest");
}

#[test]
fn the_class_comes_from_the_model_where_the_tokenizer_does_not_name_it() {
    let files = [("vocab.json", VOCAB), ("merges.txt", "a b"), ("config.json", r#"{"model_type": "gpt2"}"#)];
    assert!(find_tokenizer(dir(&files).path()).unwrap().is_some());
    refused(|| find_tokenizer(dir(&files[..2]).path()), "an unnamed class of tokenizer is not supported");
    refused(
        || find(VOCAB, "a b", r#"{"tokenizer_class": "CLIPTokenizer"}"#),
        "vocab.json of a \"CLIPTokenizer\"",
    );
}

#[test]
fn files_that_contradict_themselves_are_refused_with_the_place() {
    let cases = [
        ("{}", "", CONFIG, "0 tokens"),
        ("[]", "", CONFIG, "a JSON object"),
        (r#"{"a": 0, "b": 0}"#, "", CONFIG, "id 0 twice"),
        (r#"{"a": -1}"#, "", CONFIG, "an id from 0 to 4294967295"),
        (r#"{"a": 4294967296}"#, "", CONFIG, "an id from 0 to 4294967295"),
        (VOCAB, "a b\na c\n", CONFIG, "merge 1: expected tokens of the vocabulary, found \"c\""),
        (VOCAB, "b a\n", CONFIG, "a merge that makes a token of the vocabulary, found \"ba\""),
        (VOCAB, "ab\n", CONFIG, "line 1: expected two tokens"),
        (VOCAB, "a b c\n", CONFIG, "line 1: expected two tokens"),
        (VOCAB, " b\n", CONFIG, "expected tokens of the vocabulary, found \"\""),
        (VOCAB, "a b", r#"{"tokenizer_class": 5}"#, "tokenizer_class"),
        (
            VOCAB,
            "a b",
            r#"{"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"0": {"content": "x"}}}"#,
            "as in the list of added tokens",
        ),
        (
            VOCAB,
            "a b",
            r#"{"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"9": {"content": "ab"}}}"#,
            "a text of its own",
        ),
        (
            VOCAB,
            "a b",
            r#"{"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"-1": {"content": "x"}}}"#,
            "a token id as the name of the field",
        ),
        (
            VOCAB,
            "a b",
            r#"{"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"9": {"content": ""}}}"#,
            "a token with a text",
        ),
    ];
    for (vocab, merges, config, expected) in cases {
        refused(|| find(vocab, merges, config), expected);
    }
}

#[test]
fn a_tokenizer_json_goes_before_everything_else() {
    let dir = dir(&[("tokenizer.json", "{}"), ("vocab.json", "broken"), ("tokenizer.model", "broken")]);
    let found = find_tokenizer(dir.path()).unwrap().unwrap();
    assert_eq!((found.json.as_slice(), found.derived), (&b"{}"[..], false));
    assert!(found.definition.is_none(), "a tokenizer.model of another format is no second opinion");
}
