//! GGUF files out: other programs get the model that was given, in the types of llama-quantize.

use std::fs;
use std::path::Path;

use qsf_runtime::compare::configuration_differences;
use qsf_runtime::gguf::GgufFile;
use qsf_runtime::source::{self, WeightSource};
use qsf_tests::*;
use serde_json::Value;

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

/// Types of the tensors of a report, by name.
fn types(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    report["tensors"].as_array().unwrap().iter().map(|t| (text(&t["tensor"]), text(&t["type"]))).collect()
}

fn type_of(report: &Value, tensor: &str) -> String {
    let found = types(report).into_iter().find(|(name, _)| name == tensor);
    found.unwrap_or_else(|| panic!("{tensor} in {report}")).1
}

/// All values of a model, in its order.
fn values(path: &Path) -> Vec<(String, Vec<f32>)> {
    let model = source::open(path).unwrap();
    let of = |info: &source::TensorInfo| (info.id.to_string(), model.load(info.id).unwrap().to_f32());
    model.tensors().iter().map(of).collect()
}

#[test]
fn a_model_comes_back_from_gguf_with_its_values_configuration_and_tokenizer() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (qsf, gguf, again) = (dir.path().join("a.qsf"), dir.path().join("b.gguf"), dir.path().join("c.qsf"));
    convert(&model, &qsf, "--quant f16").run().ok();
    convert(&qsf, &gguf, "--quant f16").run().ok();
    convert(&gguf, &again, "--quant f16").run().ok();
    assert!(values(&qsf) == values(&gguf) && values(&gguf) == values(&again));
    let (first, last) = (source::open(&qsf).unwrap(), source::open(&again).unwrap());
    assert_eq!(configuration_differences(first.config(), last.config()).unwrap(), []);
    let text = "--temp 0 -n 12";
    let run = |path: &Path| {
        let output = program("qsf-run").arg(path).args(text).arg("-p").arg("It was a dark").run();
        output.ok().stdout
    };
    assert_eq!(run(&model), run(&gguf), "the tokenizer and the values are the model's");
    // The same, straight from the directory, and from one GGUF file to another.
    let direct = dir.path().join("d.gguf");
    convert(&model, &direct, "--to gguf --quant F16").run().ok();
    assert!(values(&direct) == values(&gguf));
    let copy = dir.path().join("e.gguf");
    convert(&gguf, &copy, "--quant F16").run().ok();
    assert!(values(&copy) == values(&gguf));
}

#[test]
fn every_architecture_that_gguf_has_a_name_for_comes_back_and_others_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = 0;
    for entry in fs::read_dir(golden("")).unwrap() {
        let model = entry.unwrap().path();
        let name = model.file_name().unwrap().to_string_lossy().into_owned();
        if !model.join("config.json").is_file() {
            continue;
        }
        let out = dir.path().join(format!("{name}.gguf"));
        let call = convert(&model, &out, "--quant F32");
        let output = call.run();
        if output.code == 4 {
            assert!(output.stderr.contains("in a GGUF file"), "{name}: {}", output.stderr);
            assert!(leftovers(dir.path()).is_empty() && !out.exists(), "{name}");
            continue;
        }
        output.ok();
        written += 1;
        let (original, found) = (values(&model), values(&out));
        assert_eq!(original.len(), found.len(), "{name}");
        for ((id, a), (other, b)) in original.iter().zip(&found) {
            assert_eq!(id, other, "{name}");
            // Gemma's norms are stored as 1 + w.
            let same = a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-6);
            assert!(same, "{name}: {id}");
        }
    }
    assert!(written >= 10, "{written}");
}

#[test]
fn a_recipe_gives_the_types_of_llama_quantize_and_types_with_small_blocks_where_rows_need_them() {
    let dir = tempfile::tempdir().unwrap();
    let wide = dir.path().join("wide");
    write_llama(&wide, Size { layers: 8, hidden: 256, ffn: 512, vocab: 64 }, 1);
    let report = convert(&wide, &dir.path().join("w.gguf"), "--quant Q4_K_M --json").run().json();
    // llama-quantize, of the same model: the first and last layer and every third between have Q6_K.
    for (tensor, ty) in [
        ("token_embedding", "Q6_K"),
        ("layer 0 attn_v", "Q6_K"),
        ("layer 1 attn_v", "Q4_K"),
        ("layer 3 ffn_down", "Q6_K"),
        ("layer 4 ffn_down", "Q4_K"),
        ("layer 7 ffn_down", "Q6_K"),
        ("layer 0 attn_q", "Q4_K"),
        ("layer 0 attn_norm", "f32"),
    ] {
        assert_eq!(type_of(&report, tensor), ty, "{tensor}");
    }
    // Queries, keys and values that are one tensor have one type, that of values.
    let joined = dir.path().join("joined");
    write_gpt2(&joined, Size { layers: 8, hidden: 256, ffn: 512, vocab: 64 }, 1);
    let report = convert(&joined, &dir.path().join("j.gguf"), "--quant Q4_K_M --json").run().json();
    for (tensor, ty) in [("layer 0 attn_q", "Q6_K"), ("layer 0 attn_v", "Q6_K"), ("layer 1 attn_k", "Q4_K")] {
        assert_eq!(type_of(&report, tensor), ty, "{tensor}");
    }
    let narrow = dir.path().join("narrow");
    write_llama(&narrow, Size { layers: 2, hidden: 192, ffn: 160, vocab: 64 }, 1);
    let out = dir.path().join("n.gguf");
    let report = convert(&narrow, &out, "--quant Q3_K_S --json").run().json();
    assert_eq!(type_of(&report, "layer 0 attn_q"), "Q4_0");
    assert_eq!(type_of(&report, "token_embedding"), "Q8_0");
    let read = source::open(&out).unwrap();
    let queries = read.tensors().iter().find(|info| info.name == "blk.0.attn_q.weight").unwrap();
    assert_eq!(queries.stored.to_string(), "Q4_0");
}

#[test]
fn a_text_and_a_size_make_better_files_that_keep_to_the_size() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 3000");
    let kld = |out: &str, args: &str| {
        let path = dir.path().join(out);
        let args = format!("{args} --eval {TEXT} --eval-chunks 4 --json");
        let report = convert(&model, &path, &args).run().json();
        (report["evaluation"]["kld"]["mean"].as_f64().unwrap(), fs::metadata(&path).unwrap().len())
    };
    let (plain, bytes) = kld("plain.gguf", "--quant Q3_K_S");
    let (fitted, same) = kld("fitted.gguf", &format!("--quant Q3_K_S {text}"));
    assert!(fitted < 0.9 * plain, "{fitted} of {plain}");
    assert!(bytes.abs_diff(same) < 1000, "{bytes} {same}");
    let (chosen, size) = kld("chosen.gguf", &format!("--target-size 700kB {text}"));
    assert!(size <= 700_000 && chosen < fitted, "{size} bytes, {chosen} of {fitted}");
    // What was measured is in the file.
    let gguf = source::gguf::open_gguf(&dir.path().join("chosen.gguf")).unwrap();
    let metadata = gguf.gguf_metadata().unwrap();
    let stored = metadata.f32("qsf.evaluation.kl_divergence").unwrap().unwrap();
    assert!((f64::from(stored) - chosen).abs() < 1e-6 * chosen, "{stored} {chosen}");
}

#[test]
fn a_size_is_kept_with_the_types_that_are_named_alone_and_a_plan_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (out, plan) = (dir.path().join("a.gguf"), dir.path().join("plan.json"));
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 1500 --json");
    let named = format!("--target-bpw 6.2 --gguf-types q4_0,Q5_1,Q8_0 {text} --save-plan {}", plan.display());
    let report = convert(&model, &out, &named).run().json();
    let chosen = |report: &Value| -> Vec<String> {
        let mut types: Vec<String> = types(report).into_iter().map(|(_, ty)| ty).collect();
        types.sort();
        types.dedup();
        types
    };
    let found = chosen(&report);
    assert!(found.iter().all(|ty| ["Q4_0", "Q5_1", "Q8_0", "f32"].contains(&ty.as_str())), "{found:?}");
    assert!(found.len() > 2, "{found:?}");
    let saved: Value = serde_json::from_slice(&fs::read(&plan).unwrap()).unwrap();
    assert_eq!(saved["options"]["gguf_types"].as_array().unwrap().len(), 3, "{saved}");
    let again = dir.path().join("b.gguf");
    convert(&model, &again, &format!("--plan {}", plan.display())).run().ok();
    assert!(fs::read(&out).unwrap() == fs::read(&again).unwrap(), "the plan makes the same file");
}

#[test]
fn what_a_gguf_file_cannot_have_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let out = dir.path().join("no.gguf");
    for (args, says) in [
        ("--quant n4", "type of QSF files"),
        ("--quant NVFP4", "not write yet"),
        ("--target-size 700kB --gguf-types Q4_0,Q9_0", "Q9_0"),
        ("--gguf-types Q4_0", "--target-size"),
        ("--tensor-type attn_q=n4", "Q4_K"),
        ("--tensor-type attn_q=Q4_K", "no whole number of blocks"),
        ("--compress zstd", "--compress"),
        ("--outliers 1%", "--outliers"),
        ("--early-exit", "--early-exit"),
    ] {
        refused(args, dir.path(), convert(&model, &out, args), 2, &[says]);
    }
    let qsf = dir.path().join("no.qsf");
    refused("qsf", dir.path(), convert(&model, &qsf, "--tensor-type attn_q=Q8_0"), 2, &["GGUF"]);
    let narrowed = "--target-size 700kB --gguf-types Q4_0";
    refused(narrowed, dir.path(), convert(&model, &qsf, narrowed), 2, &["--gguf-types"]);
    // An output that is there stays as it is.
    fs::write(&out, "mine").unwrap();
    assert_eq!(convert(&model, &out, "--quant Q8_0").run().code, 2);
    assert_eq!(fs::read(&out).unwrap(), b"mine");
}

#[test]
fn what_llama_cpp_computes_otherwise_is_said_and_what_it_cannot_load_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("mistral.gguf");
    let said = convert(&golden("mistral"), &out, "--quant F32").run().ok().stderr;
    assert!(said.contains("behind 7 tokens, the sliding window"), "{said}");
    let out = dir.path().join("llama.gguf");
    let said = convert(&golden("llama"), &out, "--quant F32").run().ok().stderr;
    assert!(!said.contains("sliding window"), "{said}");
    // llama.cpp: "tensor 'blk.0.attn_qkv.bias' not found".
    let (model, out) = (golden("gpt_neox_sequential"), dir.path().join("neox.gguf"));
    assert!(!out.exists());
    let output = convert(&model, &out, "--quant F32").run();
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("attention without biases in a GGUF file"), "{}", output.stderr);
    assert!(!out.exists());
    // Its converter moves rows of whole heads, of which half is rotated.
    let (model, out) = (golden("bamba"), dir.path().join("bamba.gguf"));
    let output = convert(&model, &out, "--quant F32").run();
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("rotation of a part of each head in a GGUF file"), "{}", output.stderr);
    assert!(!out.exists());
}

/// llama.cpp loads files of Gemma 3n only with as many rows in this embedding as in the other; models have fewer.
#[test]
fn tokens_without_an_embedding_for_layers_have_that_of_the_first_in_a_gguf_file() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (golden("gemma3n_plain"), dir.path().join("gemma3n.gguf"));
    convert(&model, &out, "--quant F32").run().ok();
    let file = GgufFile::open(&out).unwrap();
    let rows = |name: &str| file.tensors.iter().find(|tensor| tensor.name == name).unwrap().shape[1];
    assert_eq!((rows("per_layer_token_embd.weight"), rows("token_embd.weight")), (80, 80));
    let embedding = |path: &Path| {
        let found = values(path).into_iter().find(|(id, _)| id == "per_layer_embedding");
        found.unwrap().1
    };
    let (of_model, of_file) = (embedding(&model), embedding(&out));
    let columns = of_file.len() / 80;
    assert_eq!(of_model.len(), 73 * columns);
    assert!(of_file[..of_model.len()] == of_model);
    assert!(of_file[of_model.len()..].chunks(columns).all(|row| row == &of_model[..columns]));
    let report =
        program("qsf-eval").arg(&out).arg("--golden").arg(model.join("expected.safetensors")).args("--json");
    let report = report.run().ok().json();
    let error = report["logits_relative_error"].as_f64().unwrap();
    assert!(error < 1e-5, "{error}");
}
