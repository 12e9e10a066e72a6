//! Early exits, from conversion to the model that is left by them.

use std::fs;
use std::path::Path;

use qsf_tests::*;
use serde_json::Value;

/// Perplexity and divergence from the same file run whole.
fn evaluated(file: &Path, args: &str) -> Value {
    let call = program("qsf-eval").arg(file).arg("--base").arg(file).arg("--file").arg(TEXT);
    call.args("--ctx 256 --chunks 4 --json").args(args).run().json()
}

#[test]
fn a_surer_exit_is_a_later_one_and_nearer_to_the_whole_model() {
    let dir = tempfile::tempdir().unwrap();
    let (model, file) = (demo_model(dir.path()), dir.path().join("out.qsf"));
    program("qsf-convert").arg(&model).arg(&file).args("-q 8bit --early-exit").run().ok();
    let inspected = program("qsf-inspect").arg(&file).args("--json --verify").run().json();
    let exits = inspected["early_exits"]["exits"].as_array().unwrap();
    let layers: Vec<u64> = exits.iter().map(|exit| exit["layer"].as_u64().unwrap()).collect();
    assert_eq!(layers, [1, 2]);
    let said = program("qsf-inspect").arg(&file).run().ok().stdout;
    assert!(said.contains("early exits behind layers: 1: "), "{said}");

    let number = |value: &Value, name: &str| value.pointer(name).unwrap().as_f64().unwrap();
    assert_eq!(evaluated(&file, "").get("layers_per_token"), None);
    let mut before = (2.0, f64::INFINITY);
    for confidence in ["0", "0.5", "0.7", "0.9", "1"] {
        let found = evaluated(&file, &format!("--early-exit {confidence}"));
        let now = (number(&found, "/layers_per_token"), number(&found, "/kld/mean"));
        assert!(now.0 >= before.0 && now.1 <= before.1, "{confidence}: {now:?} after {before:?}");
        assert_eq!(found["layer_selection"]["early_exit"]["behind_layers"].as_array().unwrap().len(), 2);
        assert!(number(&found, "/decode_tokens_per_second") > 0.0);
        if confidence == "0.7" {
            assert!(now.0 > 2.0 && now.0 < 4.0, "a classifier that always says the same: {now:?}");
        }
        before = now;
    }
    // No classifier is certain: all layers, and the bits of the model in one piece.
    assert_eq!(before, (4.0, 0.0));
    // What is stored is what is found on another text, about.
    let share = number(&exits[0], "/agreeing") / number(&inspected, "/early_exits/positions");
    let found = number(&evaluated(&file, "--early-exit 0"), "/top1") / 100.0;
    assert!((share - found).abs() < 0.1, "{share} counted, {found} found");

    let json = program("qsf-run").arg(&file).args("-p Once -n 8 --temp 0 --early-exit 0 --json").run().json();
    assert_eq!(json["layers_per_token"], 2.0);
    let call = program("qsf-run").arg(&file).args("--bench --pp 0 --tg 4 -r 1 --early-exit 0 --json");
    let bench = call.run().json();
    assert_eq!(bench["rows"][0]["layers_per_token"], 2.0);
    assert_eq!(bench["weight_bytes_per_token"], Value::Null);
}

#[test]
fn a_budget_changes_nothing_of_where_tokens_leave() {
    let dir = tempfile::tempdir().unwrap();
    let (model, file) = (demo_model(dir.path()), dir.path().join("out.qsf"));
    program("qsf-convert").arg(&model).arg(&file).args("-q 8bit --early-exit").run().ok();
    let run = |args: &str| {
        let call = program("qsf-run").arg(&file).args("--prompt-ids 1,2,3,4,5 -n 40 --temp 0 --json");
        call.args("--early-exit 0.6 --kv-type f16").args(args).run().json()
    };
    let (whole, streamed) = (run(""), run("--ram-budget 7"));
    assert!(streamed["streaming"]["bytes_read_per_token"].as_u64().unwrap() > 0, "{}", streamed["streaming"]);
    for field in ["tokens", "layers_per_token"] {
        assert_eq!(whole[field], streamed[field]);
    }
    let layers = whole["layers_per_token"].as_f64().unwrap();
    assert!(layers > 2.0 && layers < 4.0, "{layers}");
}

#[test]
fn exits_have_the_same_bytes_with_any_number_of_threads_and_instruction_set() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let text = dir.path().join("text.txt");
    fs::write(&text, &fs::read_to_string(TEXT).unwrap()[..6000]).unwrap();
    let file = |name: &str, threads: &str, isa: &str| {
        let out = dir.path().join(name);
        let call = program("qsf-convert").arg(&model).arg(&out).args("--early-exit -t").arg(threads);
        let call = call.arg("--calibration").arg(&text).args("--calibration-tokens 512");
        if isa.is_empty() { call } else { call.env("QSF_CPU", isa) }.run().ok();
        fs::read(out).unwrap()
    };
    let first = file("a.qsf", "1", "");
    assert!(first == file("b.qsf", "3", ""), "other bytes with three threads");
    assert!(first == file("c.qsf", "2", "scalar"), "other bytes without vectors");
}

#[test]
fn exits_that_are_not_there_or_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (model, file) = (demo_model(dir.path()), dir.path().join("out.qsf"));
    program("qsf-convert").arg(&model).arg(&file).run().ok();
    let call = program("qsf-run").arg(&file).args("-p Once -n 1 --early-exit 0.9");
    refused("no exits", dir.path(), call, 2, &["--early-exit 0.9", "convert the model with"]);
    let call = program("qsf-run").arg(&file).args("-p Once -n 1 --early-exit 2");
    refused("no share", dir.path(), call, 2, &["from 0 to 1"]);
    let one = dir.path().join("one");
    write_llama(&one, Size { layers: 1, hidden: 64, ffn: 96, vocab: 2048 }, 1);
    fs::copy(model.join("tokenizer.json"), one.join("tokenizer.json")).unwrap();
    let call = program("qsf-convert").arg(&one).arg(dir.path().join("no.qsf")).arg("--early-exit");
    refused("one layer", dir.path(), call, 2, &["one layer"]);
}
