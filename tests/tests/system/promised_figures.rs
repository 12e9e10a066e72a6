//! The figures that the project promises, on trained models that only a development machine has.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use qsf_tests::*;
use serde_json::Value;

/// Held by each test: every program here takes all cores, and one of the figures is a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A trained model and the text that none of them saw.
fn trained(name: &str) -> (PathBuf, PathBuf) {
    (shared(&format!("models/{name}")), shared("text/heldout.txt"))
}

#[track_caller]
fn convert(model: &Path, out: &Path, quant: &str) -> Value {
    program("qsf-convert").arg(model).arg(out).arg("--quant").arg(quant).arg("--json").run().json()
}

#[track_caller]
fn evaluate(model: &Path, text: &Path, base: Option<&Path>, chunks: usize) -> Value {
    let call = program("qsf-eval").arg(model).arg("--file").arg(text).arg("--chunks").arg(chunks.to_string());
    let call = base.into_iter().fold(call, |call, base| call.arg("--base").arg(base));
    let value = call.args("--ctx 512 --json").run().json();
    assert_eq!(value["tokens"], chunks * 255, "{value}");
    value
}

#[track_caller]
fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn four_bits_of_llama_keep_the_promised_distance_at_the_promised_size() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (model, text) = trained("llama-53m");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("4bit.qsf");
    convert(&model, &out, "4bit");
    // All 60 chunks of the published figures would take minutes; `reference.rs` compares the perplexity of the source.
    let kld = number(&evaluate(&out, &text, Some(&model), 20), "/kld/mean");
    assert!(kld <= 0.026, "KLD {kld}");
    let bytes = fs::metadata(&out).unwrap().len();
    assert!(bytes <= 30_600_000, "{bytes} bytes");
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn eight_bits_of_llama_are_next_to_the_source() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (model, text) = trained("llama-53m");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("8bit.qsf");
    convert(&model, &out, "8bit");
    let kld = number(&evaluate(&out, &text, Some(&model), 4), "/kld/mean");
    assert!(kld <= 0.0010, "KLD {kld}");
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn four_bits_of_gpt2_keep_the_perplexity_and_two_bits_still_predict() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (model, text) = trained("gpt2-17m");
    let dir = tempfile::tempdir().unwrap();
    let file = |quant: &str| {
        let out = dir.path().join(format!("{quant}.qsf"));
        convert(&model, &out, quant);
        out
    };
    let (four, two) = (file("4bit"), file("2bit"));
    let result = evaluate(&four, &text, Some(&model), 20);
    let (ppl, base) = (number(&result, "/ppl"), number(&result, "/base_ppl"));
    assert!((ppl / base - 1.0).abs() <= 0.04, "perplexity {ppl}, of the source {base}");
    let ppl = |file: &Path| number(&evaluate(file, &text, None, 6), "/ppl");
    let (two, four) = (ppl(&two), ppl(&four));
    assert!(two.is_finite() && two > four, "perplexity {two} with 2 bits, {four} with 4");
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
#[cfg(target_os = "linux")]
fn converting_llama_takes_seconds_and_little_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (model, _) = trained("llama-53m");
    let dir = tempfile::tempdir().unwrap();
    let call = program("qsf-convert").arg(&model).arg(dir.path().join("out.qsf"));
    let (output, peak) = call.args("--quant 4bit --json").run_measured();
    let seconds = number(&output.json(), "/seconds");
    println!("{seconds} s, {peak} bytes");
    // The promise is for release binaries, which QSF_BIN_DIR names. Those of the test profile are about half as fast, and other tests
    // run beside them.
    let limit = if std::env::var_os("QSF_BIN_DIR").is_some() { 6.0 } else { 20.0 };
    assert!(seconds < limit, "{seconds} s");
    assert!(peak > 10_000_000 && peak < 400_000_000, "{peak} bytes of memory");
}
