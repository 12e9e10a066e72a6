//! Every architecture against transformers: models of random weights, which forgive nothing, as directories and as the
//! files that they are converted to.

use std::path::{Path, PathBuf};

use qsf_tests::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::Value;

/// Folders with a model and `expected.safetensors`, each in a folder of this folder: those of this repository are of awkward
/// shapes (scripts/make_golden.py).
fn models_in(folder: &Path, least: usize) -> Vec<PathBuf> {
    let mut models: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    models.sort();
    assert!(models.len() >= least, "{models:?}");
    models
}

fn compare(model: &Path, expected: &Path) -> Value {
    let golden = expected.join("expected.safetensors");
    program("qsf-eval").arg(model).arg("--golden").arg(golden).arg("--json").run().json()
}

fn error(report: &Value, field: &str) -> f64 {
    report[field].as_f64().unwrap()
}

/// As directories and as files in f32.
fn check_against_transformers(models: &[PathBuf]) {
    let dir = tempfile::tempdir().unwrap();
    for model in models {
        let file = dir.path().join("f32.qsf");
        program("qsf-convert").arg(model).arg(&file).args("--quant f32 --force").run().ok();
        for path in [model, &file] {
            let report = compare(path, model);
            let name = path.display();
            assert!(
                error(&report, "logits_relative_error") <= 1e-5,
                "{name} of {}: {report}",
                model.display()
            );
            assert!(error(&report, "nll_mean_abs_error") <= 5e-5, "{name} of {}: {report}", model.display());
            assert_eq!(report["greedy_equal"], true, "{name} of {}: {report}", model.display());
        }
    }
}

fn is_mixture(model: &Path) -> bool {
    let config = std::fs::read_to_string(model.join("config.json")).unwrap();
    config.contains("experts_per_tok") || config.contains("\"moe_")
}

/// A router that decides otherwise by a hair takes other experts: there the error says nothing. Random weights amplify any
/// error: a model in which the rounded weights alone do much harm may lose as much again to its activations. Most harm do those of
/// recurrent layers, whose state adds errors up.
fn check_eight_bits(models: &[PathBuf]) {
    let dir = tempfile::tempdir().unwrap();
    for model in models {
        if is_mixture(model) {
            continue;
        }
        let file = dir.path().join("8bit.qsf");
        program("qsf-convert").arg(model).arg(&file).args("--quant 8bit --force").run().ok();
        let golden = model.join("expected.safetensors");
        let call = program("qsf-eval").arg(&file).arg("--golden").arg(golden);
        let weights_alone = call.args("--activations f32 --json").run().json();
        let limit = 2.0 * error(&weights_alone, "logits_relative_error");
        assert!(limit <= 2.5e-1, "{}: {weights_alone}", model.display());
        let report = compare(&file, model);
        assert!(error(&report, "logits_relative_error") <= limit.max(1e-1), "{}: {report}", model.display());
    }
}

#[test]
fn every_architecture_computes_what_transformers_computes() {
    check_against_transformers(&models_in(&golden(""), 112));
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn every_reference_model_computes_what_transformers_computes() {
    check_against_transformers(&models_in(&shared("golden"), 17));
}

#[test]
fn eight_bits_stay_close_on_every_dense_architecture() {
    check_eight_bits(&models_in(&golden(""), 100));
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn eight_bits_stay_close_on_every_dense_reference_model() {
    check_eight_bits(&models_in(&shared("golden"), 17));
}

/// Tokens of a text whose mean says something. Of the 40 that the fixtures have, a few can move it by 0.1.
const LONG: usize = 1000;
/// An expectation this far below 0 makes the mean difference from it the mean and this.
const BELOW: f32 = 1000.0;

/// An expectation of random tokens.
fn write_long_text(path: &Path) {
    let mut state = 1_u64;
    let ids: Vec<u8> = (0..LONG)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) as i32 % 80).to_le_bytes()
        })
        .collect();
    let nll: Vec<u8> = (1..LONG).flat_map(|_| (-BELOW).to_le_bytes()).collect();
    let logits = [0, 0, 128, 63].repeat(80);
    let view = |dtype, shape: &[usize], bytes| TensorView::new(dtype, shape.to_vec(), bytes).unwrap();
    let tensors = [
        ("input_ids", view(Dtype::I32, &[LONG], &ids)),
        ("nll", view(Dtype::F32, &[LONG - 1], &nll)),
        ("logits_last8", view(Dtype::F32, &[1, 80], &logits)),
        ("greedy_prompt20", view(Dtype::I32, &[0], &[])),
    ];
    std::fs::write(path, safetensors::serialize(tensors, None).unwrap()).unwrap();
}

#[test]
fn eight_bits_keep_the_mean_negative_log_likelihood_of_dense_models() {
    let dir = tempfile::tempdir().unwrap();
    let (golden_file, file) = (dir.path().join("long.safetensors"), dir.path().join("8bit.qsf"));
    write_long_text(&golden_file);
    let mean = |model: &Path| {
        let call = program("qsf-eval").arg(model).arg("--golden").arg(&golden_file).arg("--json");
        error(&call.run().json(), "nll_mean_abs_error") - f64::from(BELOW)
    };
    let mut compared = 0;
    for model in models_in(&golden(""), 112) {
        let name = model.file_name().unwrap().to_string_lossy().into_owned();
        let learned_positions = ["gpt2", "gpt_bigcode", "opt"].contains(&name.as_str());
        if learned_positions || is_mixture(&model) {
            continue;
        }
        let longer = dir.path().join(&name);
        copy(&model, &longer);
        let config: Value =
            serde_json::from_slice(&std::fs::read(longer.join("config.json")).unwrap()).unwrap();
        for field in ["max_position_embeddings", "n_positions", "max_seq_len"] {
            if config.get(field).is_some() {
                change_config(&longer, field, 1024.into());
            }
        }
        program("qsf-convert").arg(&longer).arg(&file).args("--quant 8bit --force").run().ok();
        let (found, expected) = (mean(&file), mean(&longer));
        assert!((found - expected).abs() <= 0.1, "{name}: {found}, and {expected} in full precision");
        compared += 1;
    }
    assert!(compared >= 65, "{compared}");
}

/// Copies the directory of a model.
fn copy(model: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(model).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_head_of_its_own_is_used_whatever_the_configuration_says_and_a_copy_is_not() {
    let model = golden("llama");
    let dir = tempfile::tempdir().unwrap();
    let tied = dir.path().join("tied");
    copy(&model, &tied);
    change_config(&tied, "tie_word_embeddings", true.into());
    let report = compare(&tied, &model);
    assert!(error(&report, "logits_relative_error") <= 1e-5, "as transformers 5 reads it: {report}");

    let mut weights = SafetensorsFile::of_model(&tied);
    weights.copy("model.embed_tokens.weight", "lm_head.weight");
    weights.save();
    let file = dir.path().join("tied.qsf");
    program("qsf-convert").arg(&tied).arg(&file).args("-q f32").run().ok();
    let shown = program("qsf-inspect").arg(&file).arg("--json").run().json();
    assert_eq!(shown["config"]["tied_head"], true, "a copy is stored once");
}
