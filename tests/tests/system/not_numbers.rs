//! Models whose weights are finite and whose activations are not: no program makes a figure, a text or a file of that.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

/// As many tokens as the tokenizer of the embedded model has.
const VOCAB: usize = 2048;

const SIZE: Size = Size { vocab: VOCAB, ..Size::TINY };

/// A model with random weights and the embedded tokenizer, its weights changed by `damage`.
fn model(dir: &Path, name: &str, damage: impl Fn(&mut SafetensorsFile)) -> PathBuf {
    let model = dir.join(name);
    write_llama(&model, SIZE, 1);
    let mut weights = SafetensorsFile::of_model(&model);
    damage(&mut weights);
    weights.save();
    fs::copy(demo_model(&dir.join("tokenizer")).join("tokenizer.json"), model.join("tokenizer.json"))
        .unwrap();
    model
}

fn norms(weights: &SafetensorsFile) -> Vec<String> {
    weights.names().filter(|name| name.contains("norm")).map(str::to_owned).collect()
}

/// Models that overflow in different places: attention, feed-forward, the head.
fn overflowing(dir: &Path) -> Vec<PathBuf> {
    let gains = model(dir, "gains", |weights| {
        for name in norms(weights) {
            weights.fill(&name, 1e30);
        }
    });
    let ffn =
        model(dir, "ffn", |weights| weights.fill("model.layers.1.post_attention_layernorm.weight", 1e30));
    let head = model(dir, "head", |weights| {
        weights.put("lm_head.weight", &[VOCAB, SIZE.hidden], |i| if i % 3 == 0 { -3e38 } else { 3e38 });
    });
    change_config(&head, "tie_word_embeddings", false.into());
    vec![gains, ffn, head]
}

/// The expectation of another implementation, of zeros.
fn golden(path: &Path) {
    let ids: Vec<u8> = (0..32i32).flat_map(i32::to_le_bytes).collect();
    let zeros = vec![0; 4 * 8 * VOCAB];
    let tensors = [
        ("input_ids", TensorView::new(Dtype::I32, vec![32], &ids).unwrap()),
        ("logits_last8", TensorView::new(Dtype::F32, vec![8, VOCAB], &zeros).unwrap()),
        ("nll", TensorView::new(Dtype::F32, vec![31], &zeros[..4 * 31]).unwrap()),
        ("greedy_prompt20", TensorView::new(Dtype::I32, vec![4], &ids[..16]).unwrap()),
    ];
    fs::write(path, safetensors::serialize(tensors, None).unwrap()).unwrap();
}

fn evaluation(model: &Path) -> Program {
    program("qsf-eval").arg(model).arg("--file").arg(TEXT).args("--ctx 32 --chunks 2")
}

#[test]
fn no_figure_is_made_of_logits_that_are_not_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let expected = dir.path().join("expected.safetensors");
    golden(&expected);
    let sound = model(dir.path(), "sound", |_| ());
    evaluation(&sound).run().ok();
    for broken in overflowing(dir.path()) {
        let mut forms = vec![broken.clone()];
        // As floats, and by integer kernels.
        for quant in ["f32", "4bit", "ternary"] {
            let out = broken.with_extension(format!("{quant}.qsf"));
            program("qsf-convert").arg(&broken).arg(&out).arg("-q").arg(quant).run().ok();
            forms.push(out);
        }
        for form in &forms {
            for call in [
                evaluation(form),
                evaluation(form).arg("--json"),
                evaluation(form).arg("--base").arg(&sound),
                evaluation(&sound).arg("--base").arg(form).arg("--json"),
                evaluation(form).arg("--base").arg(form),
                program("qsf-eval").arg(form).arg("--golden").arg(&expected),
                program("qsf-eval").arg(form).arg("--golden").arg(&expected).arg("--json"),
            ] {
                refused(&format!("{call:?}"), dir.path(), call, 3, &["not finite", "broken or overflow"]);
            }
        }
    }
}

#[test]
fn no_text_is_made_of_logits_that_are_not_numbers() {
    let dir = tempfile::tempdir().unwrap();
    // The head alone leaves infinite logits, of which the largest can be chosen: only where all are NaN there is no text.
    for broken in overflowing(dir.path()).into_iter().filter(|model| !model.ends_with("head")) {
        for sampling in ["--temp 0", "--temp 1", "--temp 0.7 --top-k 0 --top-p 1 --min-p 0.1"] {
            let call = program("qsf-run").arg(&broken).args("-p Hello -n 4 --json").args(sampling);
            refused(&format!("{call:?}"), dir.path(), call, 3, &["broken or overflow"]);
        }
    }
}

#[test]
fn no_file_is_made_of_statistics_that_are_not_numbers() {
    let dir = tempfile::tempdir().unwrap();
    // Logits are not computed by a calibration: what overflows there only is none of its business.
    for broken in overflowing(dir.path()).into_iter().filter(|model| !model.ends_with("head")) {
        for args in ["", "--force --json", "-q 2bit --calibration-tokens 3"] {
            let out = dir.path().join("out.qsf");
            let call =
                program("qsf-convert").arg(&broken).arg(&out).arg("--calibration").arg(TEXT).args(args);
            refused(&format!("{call:?}"), dir.path(), call, 3, &["not finite"]);
        }
    }
}

#[test]
fn a_perplexity_beyond_all_numbers_is_no_figure() {
    let dir = tempfile::tempdir().unwrap();
    let sound = model(dir.path(), "sound", |_| ());
    // Logits and losses are finite, and so is their mean; what is beyond f64 is its exponential.
    for gain in [1e5, 1e20, 1e30] {
        let large = model(dir.path(), &format!("{gain}"), |weights| weights.fill("model.norm.weight", gain));
        for call in [
            evaluation(&large),
            evaluation(&large).arg("--json"),
            evaluation(&large).arg("--base").arg(&sound).arg("--json"),
            evaluation(&sound).arg("--base").arg(&large).arg("--json"),
        ] {
            refused(&format!("{call:?}"), dir.path(), call, 3, &["overflow"]);
        }
    }
}

#[test]
fn activations_whose_squares_are_beyond_f32_do_not_spoil_a_calibration() {
    let dir = tempfile::tempdir().unwrap();
    for gain in [1e15, 1e20, 1e25] {
        let large = model(dir.path(), &format!("{gain}"), |weights| weights.fill("model.norm.weight", gain));
        let (out, plain) = (dir.path().join("out.qsf"), dir.path().join("plain.qsf"));
        program("qsf-convert").arg(&large).arg(&plain).arg("--force").run().ok();
        let call = program("qsf-convert").arg(&large).arg(&out).arg("--calibration").arg(TEXT);
        let converted = call.args("--calibration-tokens 100 --force").run();
        // Refusing is as good as coping with it.
        assert!(converted.code == 0 || converted.code == 3, "{gain}: {converted:?}");
        if converted.code == 0 {
            let error = |file: &Path| {
                let value = program("qsf-inspect").arg(file).args("--tensors --json").run().json();
                value["tensors"][0]["relative_error"].as_f64().unwrap()
            };
            let (with, without) = (error(&out), error(&plain));
            assert!(with < 1.5 * without, "{gain}: error of the embedding {with}, {without} without a text");
        }
    }
}
