//! Tokenizers of other origins than `tokenizer.json`, through the programs.

use std::fs;

use qsf_tests::*;
use serde_json::{Value, json};

const OTHER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/src/tokenizer/definition/fixtures/bpe.model");

#[test]
fn a_model_whose_tokenizers_contradict_each_other_is_not_converted_unless_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    fs::copy(OTHER, model.join("tokenizer.model")).unwrap();
    let convert = || program("qsf-convert").arg(&model).arg(dir.path().join("out.qsf"));
    let says = ["tokenizer.model", "at the text \"The quick brown fox", "--skip-tokenizer-check"];
    refused("two tokenizers", dir.path(), convert(), 3, &says);
    assert_eq!(convert().args("--skip-tokenizer-check").run().code, 0);
}

#[test]
fn tokens_are_shown_for_a_model_a_file_of_it_and_a_tokenizer_alone() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let qsf = dir.path().join("out.qsf");
    assert_eq!(program("qsf-convert").arg(&model).arg(&qsf).run().code, 0);
    let text = dir.path().join("text.txt");
    fs::write(&text, "Once upon a time, there was a fox.\n").unwrap();
    let tokens = |path| program("qsf-run").arg(path).args("--tokenize --json --file").arg(&text).run().json();
    let first = tokens(&model);
    let count = first["token_ids"].as_array().unwrap().len();
    assert!(count > 5 && first["tokens"] == json!(count), "{first}");
    for path in [&qsf, &model.join("tokenizer.json")] {
        assert_eq!(tokens(path)["token_ids"], first["token_ids"], "{}", path.display());
    }
    let plain = program("qsf-run").arg(&qsf).args("--tokenize -f").arg(&text).run().stdout;
    let ids: Vec<Value> = plain.split_whitespace().map(|id| id.parse().unwrap()).collect();
    assert_eq!(json!(ids), first["token_ids"]);
}

#[test]
fn the_start_token_can_be_left_out() {
    let tokens = |flags: &str| {
        let call = program("qsf-run").arg(OTHER).args("--tokenize --json").args(flags);
        call.arg("-p").arg("<s>and").run().json()["token_ids"].clone()
    };
    let (all, without) = (tokens(""), tokens("--no-bos"));
    assert_eq!((&all[0], &all[1], &without[0]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(all.as_array().unwrap().len(), without.as_array().unwrap().len() + 1);
    let as_text = tokens("--no-bos --no-parse-special");
    assert!(!as_text.as_array().unwrap().contains(&json!(1)), "{as_text}");
}

#[test]
fn tokens_without_a_text_or_a_tokenizer_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let call = || program("qsf-run").arg(dir.path()).args("--tokenize");
    assert_eq!(call().run().code, 2);
    let says = ["tokenizer.json, tokenizer.model, or vocab.json with merges.txt"];
    refused("an empty folder", dir.path(), call().args("-p x"), 3, &says);
}
