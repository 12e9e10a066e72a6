//! Calibration: a text changes which errors count, in a way that can be repeated and is recorded.

use std::fs;
use std::path::Path;

use qsf_runtime::Tokenizer;
use qsf_tests::*;
use serde_json::{Value, json};

fn convert(model: &Path, out: &Path, args: &str, text: Option<&Path>) -> Vec<u8> {
    let call = program("qsf-convert").arg(model).arg(out).args(args).arg("--force");
    text.into_iter().fold(call, |call, text| call.arg("--calibration").arg(text)).run().ok();
    fs::read(out).unwrap()
}

/// What META says of the calibration.
fn recorded(file: &Path) -> Value {
    let json = program("qsf-inspect").arg(file).arg("--json").run().json();
    let options = json.pointer("/provenance/options").unwrap_or_else(|| panic!("{json}"));
    options["calibration"].clone()
}

fn tokens(model: &Path, text: &str) -> usize {
    let json = fs::read(model.join("tokenizer.json")).unwrap();
    Tokenizer::from_json(&json, model).unwrap().encode(text).unwrap().len()
}

#[test]
fn text_and_number_of_tokens_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let (out, text) = (dir.path().join("out.qsf"), dir.path().join("text.txt"));
    // The test vector of FIPS 180.
    fs::write(&text, "abc").unwrap();
    convert(&model, &out, "", Some(&text));
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        recorded(&out),
        json!({"text_sha256": hash, "tokens": tokens(&model, "abc"), "chat_template": false})
    );
    let all = tokens(&model, &fs::read_to_string(TEXT).unwrap());
    assert!(all > 5_000, "{all}");
    for (args, expected) in [("", all.min(32_768)), ("--calibration-tokens 777", 777)] {
        convert(&model, &out, args, Some(Path::new(TEXT)));
        assert_eq!(recorded(&out)["tokens"], expected);
    }
    convert(&model, &out, "", None);
    assert_eq!(recorded(&out), Value::Null);

    fs::write(&text, "").unwrap();
    let call = |text: &Path| {
        program("qsf-convert").arg(&model).arg(dir.path().join("new.qsf")).arg("--calibration").arg(text)
    };
    refused("empty text", dir.path(), call(&text), 2, &["empty"]);
    refused("no tokens", dir.path(), call(Path::new(TEXT)).args("--calibration-tokens 0"), 2, &[""]);
    refused("no text", dir.path(), call(Path::new("nowhere.txt")), 3, &["nowhere.txt"]);
    fs::write(&text, b"abc\xff").unwrap();
    refused("not UTF-8", dir.path(), call(&text), 3, &["text.txt", "offset 3"]);
    let bare = dir.path().join("bare");
    write_llama(&bare, Size::TINY, 1);
    let call =
        program("qsf-convert").arg(&bare).arg(dir.path().join("new.qsf")).arg("--calibration").arg(TEXT);
    refused("no tokenizer", dir.path(), call, 3, &["bare", "tokenizer"]);
}

/// How much each layer matters, as the file says.
fn importance(file: &Path) -> Vec<Option<f64>> {
    let json = program("qsf-inspect").arg(file).arg("--json").run().json();
    json["layers"].as_array().unwrap().iter().map(|layer| layer["importance"].as_f64()).collect()
}

#[test]
fn every_file_that_was_fitted_to_a_text_says_how_important_its_layers_are() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out, plan) =
        (demo_model(dir.path()), dir.path().join("out.qsf"), dir.path().join("plan.json"));
    // As much text as the survey of types takes for it.
    let args = "--calibration-tokens 7000 -t 2";
    convert(&model, &out, &format!("--target-size 500kB {args}"), Some(Path::new(CALIBRATION)));
    let surveyed = importance(&out);
    assert!(surveyed.len() == 4 && surveyed.iter().all(|found| found.is_some_and(|found| found > 0.1)));
    let bytes = convert(
        &model,
        &out,
        &format!("-q n3 {args} --save-plan {}", plan.display()),
        Some(Path::new(CALIBRATION)),
    );
    assert_eq!(importance(&out), surveyed);
    assert!(
        convert(&model, &out, &format!("--plan {}", plan.display()), None) == bytes,
        "other bytes by the plan"
    );
    // A file that says it can be run without the least important of its layers.
    program("qsf-run").arg(&out).args("-p Once -n 1 --quality 0.8").run().ok();
    convert(&model, &out, "-q n3", None);
    assert_eq!(importance(&out), [None; 4]);
    // With less text: without vector instructions the whole of it takes two minutes.
    let bytes = convert(&model, &out, "-q n3 --calibration-tokens 1536", Some(Path::new(CALIBRATION)));
    assert!(importance(&out).iter().all(Option::is_some));
    let call = program("qsf-convert").arg(&model).arg(&out);
    let call = call.args("-q n3 --calibration-tokens 1536 --force -t 1 --calibration").arg(CALIBRATION);
    call.env("QSF_CPU", "scalar").run().ok();
    assert!(fs::read(&out).unwrap() == bytes, "other bytes without vector instructions");
}

#[test]
fn the_same_text_gives_the_same_bytes_and_another_others() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let out = dir.path().join("out.qsf");
    // Nothing of the sums over tokens, of the factors and of the searches may depend on the machine.
    let available = program("qsf-run").args("--system --json").run().json()["isa_available"].clone();
    for quant in ["4bit", "n3", "t2", "x2", "n3 --effort high"] {
        let call = |threads: &str, isa: &str| {
            let call = program("qsf-convert").arg(&model).arg(&out).args("--force --calibration").arg(TEXT);
            let call = call.args(&format!("--calibration-tokens 300 -t {threads} -q {quant}"));
            call.env("QSF_CPU", isa).run().ok();
            fs::read(&out).unwrap()
        };
        let first = call("1", "scalar");
        assert!(call("3", "scalar") == first, "{quant}: other bytes with 3 threads");
        for isa in ["avx2", "avx512", "neon"] {
            if available.as_array().unwrap().iter().any(|known| known == isa) {
                assert!(call("2", isa) == first, "{quant}: other bytes with {isa}");
            }
        }
    }
    let errors = || {
        let tensors =
            program("qsf-inspect").arg(&out).args("--tensors --verify --json").run().json()["tensors"]
                .clone();
        tensors.as_array().unwrap().iter().map(|t| t["relative_error"].to_string()).collect::<Vec<_>>()
    };
    let weights = |args: &str, text: Option<&Path>| {
        convert(&model, &out, args, text);
        errors()
    };
    let other = dir.path().join("other.txt");
    fs::write(&other, "zzz qqq 123 ".repeat(500)).unwrap();
    let with = weights("--calibration-tokens 2000", Some(Path::new(TEXT)));
    assert_ne!(with, weights("", None), "a text must make a difference");
    assert_ne!(with, weights("--calibration-tokens 2000", Some(&other)), "and which text as well");
    // Floats have no scales to choose, which a note says.
    let plain = weights("-q bf16", None);
    let call = program("qsf-convert").arg(&model).arg(&out).args("-q bf16 --force --calibration").arg(TEXT);
    let noted = call.args("--calibration-tokens 300").run();
    assert!(noted.code == 0 && noted.stderr.contains("--calibration has no effect"), "{}", noted.stderr);
    assert_eq!(errors(), plain);
}

#[test]
fn calibration_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let kld = |quant: &str, text: Option<&Path>| {
        let out = dir.path().join("out.qsf");
        let tokens = if text.is_some() { " --calibration-tokens 2048" } else { "" };
        convert(&model, &out, &format!("-q {quant}{tokens}"), text);
        let call = program("qsf-eval").arg(&out).arg("--base").arg(&model).arg("--file").arg(TEXT);
        call.args("--ctx 256 --chunks 12 --json").run().json()["kld"]["mean"].as_f64().unwrap()
    };
    for quant in ["8bit", "4bit", "3bit", "2bit", "ternary", "mixed"] {
        let (with, without) = (kld(quant, Some(Path::new(TEXT))), kld(quant, None));
        println!("{quant}: KLD {with} with a text, {without} without");
        assert!(with <= 1.1 * without, "{quant}: KLD {with} with a text, {without} without");
    }
}
