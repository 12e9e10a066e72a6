//! `qsf-inspect diff`: a model is itself in whatever container, and one weight that was changed is found and named.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use serde_json::{Value, json};

fn diff(a: &Path, b: &Path) -> Program {
    program("qsf-inspect").arg("diff").arg(a).arg(b)
}

/// What is said of two models, which must agree with the exit code.
fn difference(a: &Path, b: &Path) -> Value {
    let output = diff(a, b).args("--json").run();
    let value: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}", output.stderr));
    assert_eq!(output.code, if value["equal"] == true { 0 } else { 1 }, "{value:#}");
    value
}

fn converted(dir: &Path, name: &str, model: &Path, args: &str) -> PathBuf {
    let out = dir.join(name);
    program("qsf-convert").arg(model).arg(&out).args(args).run().ok();
    out
}

/// The names of the tensors that differ.
fn different(value: &Value) -> Vec<&str> {
    let tensors = value["tensors"].as_array().unwrap().iter();
    tensors
        .filter(|tensor| tensor["equal"] == false)
        .map(|tensor| tensor["tensor"].as_str().unwrap())
        .collect()
}

#[test]
fn a_model_is_itself_in_every_container() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo_model(dir.path());
    let file = converted(dir.path(), "demo.qsf", &demo, "--quant f16");
    for (a, b) in [(&demo, &demo), (&demo, &file), (&file, &demo)] {
        let output = diff(a, b).run();
        assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
        for line in ["configuration: the same", "tokenizer: the same", "38 of 38", "no difference"] {
            assert!(output.stdout.contains(line), "{line:?} is not in {}", output.stdout);
        }
    }
}

#[test]
#[cfg_attr(not(qsf_python), ignore = "needs Python 3")]
fn a_model_of_the_script_is_itself_as_gguf_and_in_a_compressed_file() {
    let dir = tempfile::tempdir().unwrap();
    let (hf, gguf) = (dir.path().join("hf"), dir.path().join("model.gguf"));
    let call = script("make_random_llama.py");
    let shape = "--layers 2 --hidden 128 --ffn 192 --heads 4 --kv-heads 2 --vocab 96 --positions 64 --seed 7";
    assert_eq!(call.arg(&hf).arg("--gguf").arg(&gguf).args(shape).run().code, 0);
    let file = converted(dir.path(), "random.qsf", &gguf, "--quant f16 --compress zstd");
    for (a, b) in [(&hf, &gguf), (&gguf, &file), (&file, &hf)] {
        let value = difference(a, b);
        assert_eq!(value["equal"], true, "{value:#}");
    }
}

#[test]
fn one_weight_that_was_changed_is_found_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (model, changed) = (dir.path().join("model"), dir.path().join("changed"));
    let size = Size { layers: 2, hidden: 64, ffn: 96, vocab: 300 };
    write_llama(&model, size, 1);
    write_llama(&changed, size, 1);
    let mut weights = SafetensorsFile::of_model(&changed);
    weights.set("model.layers.1.mlp.up_proj.weight", 3 * 64 + 5, 0.75);
    weights.save();
    for (a, b) in [
        (model.clone(), changed.clone()),
        (model, converted(dir.path(), "changed.qsf", &changed, "--quant f32")),
    ] {
        let value = difference(&a, &b);
        assert_eq!(different(&value), ["layer 1 ffn_up"]);
        let tensors = value["tensors"].as_array().unwrap();
        let tensor = tensors.iter().find(|tensor| tensor["equal"] == false).unwrap();
        assert_eq!(tensor["different_values"], 1);
        assert_eq!(tensor["first_difference"], json!({"row": 3, "col": 5}));
        assert!(tensor["relative_error"].as_f64().unwrap() > 0.0);
        assert!(tensor["cosine"].as_f64().unwrap() < 1.0);
        let output = diff(&a, &b).run();
        assert_eq!(output.code, 1);
        for part in ["layer 1 ffn_up", "row 3, column 5", "the models differ"] {
            assert!(output.stdout.contains(part), "{part:?} is not in {}", output.stdout);
        }
    }
}

#[test]
fn quantizing_differs_by_the_error_that_the_conversion_reports() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo_model(dir.path());
    let file = converted(dir.path(), "demo.qsf", &demo, "--quant 4bit");
    let value = difference(&demo, &file);
    assert_eq!((&value["config_differences"], &value["tokenizer_difference"]), (&json!([]), &Value::Null));
    let listed = program("qsf-inspect").arg(&file).args("--tensors --json").run().json();
    let mut compared = 0;
    for tensor in value["tensors"].as_array().unwrap() {
        let name = tensor["tensor"].as_str().unwrap();
        let Some((layer, kind)) = name.rsplit_once(' ') else { continue };
        let layer = layer.strip_prefix("layer ").unwrap().parse::<u32>().unwrap();
        let mut listed = listed["tensors"].as_array().unwrap().iter();
        let listed = listed.find(|l| l["layer"] == layer && l["kind"] == kind).unwrap();
        assert_eq!(listed["relative_error"], tensor["relative_error"], "{name}");
        assert_eq!(listed["cosine"], tensor["cosine"], "{name}");
        assert_eq!(listed["type"], tensor["b"]["type"]);
        assert_eq!(listed["stored_bytes"], tensor["b"]["stored_bytes"]);
        compared += 1;
    }
    assert_eq!(compared, 4 * 9);
}

#[test]
fn other_configurations_shapes_and_tensors_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
    let size = Size { layers: 2, hidden: 64, ffn: 96, vocab: 300 };
    write_llama(&a, size, 1);
    write_llama(&b, size, 1);
    write_llama(&c, Size { layers: 3, ffn: 128, ..size }, 1);
    change_config(&b, "rms_norm_eps", json!(1e-3));
    let value = difference(&a, &b);
    assert_eq!(different(&value), [""; 0]);
    let field = &value["config_differences"][0];
    assert_eq!((&field["field"], &field["b"]), (&json!("norm.epsilon"), &json!(1e-3)));
    let value = difference(&a, &c);
    let fields: Vec<&Value> =
        value["config_differences"].as_array().unwrap().iter().map(|field| &field["field"]).collect();
    assert_eq!(fields, ["ffn", "layers"]);
    let named = different(&value);
    assert!(named.contains(&"layer 0 ffn_up") && named.contains(&"layer 2 attn_q"), "{named:?}");
    let text = diff(&a, &c).run().stdout;
    assert!(text.contains("only in b") && text.contains("shape 96 x 64, 128 x 64"), "{text}");
}

#[test]
fn models_that_cannot_be_read_are_errors_not_differences() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo_model(dir.path());
    let file = converted(dir.path(), "demo.qsf", &demo, "--quant f16");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = dir.path().join("damaged.qsf");
    fs::write(&damaged, bytes).unwrap();
    refused("damage", dir.path(), diff(&demo, &damaged), 3, &["damaged.qsf", "CRC32"]);
    refused("nothing there", dir.path(), diff(&demo, Path::new("none.qsf")), 3, &["none.qsf"]);
    refused("one model", dir.path(), program("qsf-inspect").arg("diff").arg(&demo), 2, &["<B>"]);
    refused("no file", dir.path(), program("qsf-inspect").args("--json"), 2, &["<FILE>"]);
}

#[test]
#[cfg(target_os = "linux")]
fn comparing_takes_memory_for_a_tensor_of_each_model_not_for_the_models() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    // 12.6 MB per layer and 4.2 MB for the embedding, as f32.
    write_llama(&model, Size { layers: 16, hidden: 512, ffn: 1536, vocab: 2048 }, 1);
    let file = converted(dir.path(), "model.qsf", &model, "--quant f32");
    assert!(fs::metadata(&file).unwrap().len() > 200_000_000);
    for (a, b) in [(&model, &file), (&file, &file)] {
        let (output, peak) = diff(a, b).run_measured();
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(peak < 80_000_000, "{peak} bytes of memory");
    }
}
