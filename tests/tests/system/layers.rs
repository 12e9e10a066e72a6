//! Layers that are left out: which they are, that it is said, and that asking for all of them changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use serde_json::Value;

const SIZE: Size = Size { layers: 7, hidden: 128, ffn: 192, vocab: 2048 };

/// A model of seven layers with random weights and a real tokenizer.
fn source(dir: &Path) -> PathBuf {
    let source = dir.join("seven");
    write_llama(&source, SIZE, 3);
    fs::copy(demo_model(dir).join("tokenizer.json"), source.join("tokenizer.json")).unwrap();
    source
}

fn evaluated(file: &Path, args: &str) -> Value {
    let call = program("qsf-eval").arg(file).arg("--file").arg(TEXT).args("--ctx 64 --chunks 2 --json");
    let mut value = call.args(args).run().json();
    value.as_object_mut().unwrap().remove("seconds");
    value
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

#[test]
fn the_least_important_layers_are_left_out_as_asked_for_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (source, file) = (source(dir.path()), dir.path().join("seven.qsf"));
    let text = dir.path().join("text.txt");
    fs::write(&text, &fs::read_to_string(TEXT).unwrap()[..4000]).unwrap();
    let call = program("qsf-convert").arg(&source).arg(&file).args("--target-bpw 5 --calibration").arg(&text);
    call.run().ok();
    let layers = program("qsf-inspect").arg(&file).arg("--json").run().json()["layers"].clone();
    let importance: Vec<f64> =
        layers.as_array().unwrap().iter().map(|layer| layer["importance"].as_f64().unwrap()).collect();
    let mut inner: Vec<u64> = (2..5).collect();
    inner.sort_by(|a, b| importance[*a as usize].total_cmp(&importance[*b as usize]));

    let full = evaluated(&file, "");
    assert_eq!(full["layer_selection"], Value::Null);
    assert_eq!(evaluated(&file, "--quality 1"), full);
    let mut before = full["ppl"].clone();
    for (quality, count) in [("0.85", 1), ("0.7", 2), ("0.5", 3), ("0", 3)] {
        let found = evaluated(&file, &format!("--quality {quality}"));
        let mut expected = inner[..count].to_vec();
        expected.sort_unstable();
        assert_eq!(numbers(&found["layer_selection"]["skipped"]), expected, "quality {quality}");
        assert!(found["ppl"] != before || quality == "0", "{count} layers less change nothing");
        before = found["ppl"].clone();
    }
    let call = || program("qsf-run").arg(&file).args("-p Once -n 4 --temp 0 --quality 0.7");
    let json = call().arg("--json").run().json();
    assert_eq!(json["layer_selection"]["skipped"].as_array().unwrap().len(), 2);
    let said = call().arg("--verbose").run();
    assert!(said.stderr.contains("2 of 7 layers are left out"), "{}", said.stderr);
    let bench = |args: &str| {
        let call = program("qsf-run").arg(&file).args("--bench --pp 0 --tg 2 -r 1 --json");
        call.args(args).run().json()
    };
    let (all, less) = (bench(""), bench("--quality 0.7"));
    assert_eq!(numbers(&less["layer_selection"]["skipped"]).len(), 2);
    let bytes = |value: &Value| value["weight_bytes_per_token"].as_u64().unwrap();
    assert!(bytes(&less) < bytes(&all), "what is left out is not read");
}

#[test]
fn quality_needs_a_number_from_0_to_1_and_a_file_that_knows_its_layers() {
    let dir = tempfile::tempdir().unwrap();
    let (source, file) = (source(dir.path()), dir.path().join("plain.qsf"));
    program("qsf-convert").arg(&source).arg(&file).run().ok();
    for model in [&source, &file] {
        let call = program("qsf-run").arg(model).args("-p Once -n 1 --quality 0.8");
        refused("unknown importance", dir.path(), call, 2, &["--target-size", "--quality 1"]);
        program("qsf-run").arg(model).args("-p Once -n 1 --quality 1").run().ok();
    }
    for wrong in ["1.5", "-1", "80%", "NaN"] {
        let call = program("qsf-eval").arg(&file).arg("--file").arg(TEXT).arg(format!("--quality={wrong}"));
        refused(wrong, dir.path(), call, 2, &["from 0 to 1"]);
    }
    let call = program("qsf-run").args("--system --quality 0.5");
    refused("--system", dir.path(), call, 2, &["--quality"]);
}
