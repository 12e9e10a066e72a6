//! Rows of embedding and head in several types: the file is smaller than one in the larger types, better than one in the smaller,
//! and the same model wherever it runs.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use serde_json::Value;

const FORM: &str = "token_embedding=8bit:32/n5:128/n3";

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

/// Mean divergence from the model.
fn divergence(file: &Path, model: &Path) -> f64 {
    let args = format!("--file {TEXT} --chunks 4 --ctx 128 --json --base");
    let found = program("qsf-eval").arg(file).args(&args).arg(model).run().json();
    found["kld"]["mean"].as_f64().unwrap()
}

#[test]
fn frequent_tokens_in_larger_types_make_a_better_file_for_few_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = |name: &str| dir.path().join(name);
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 4000 --force");
    // All else is exact, so that only the embedding tells.
    let make = |name: &str, form: &str| {
        convert(&model, &file(name), &format!("--quant f32 --tensor-type {form} {text}")).run().ok();
        (divergence(&file(name), &model), fs::metadata(file(name)).unwrap().len())
    };
    let split = make("split.qsf", FORM);
    let coarse = make("coarse.qsf", "token_embedding=n3");
    let fine = make("fine.qsf", "token_embedding=8bit");
    assert!(split.0 < 0.6 * coarse.0, "{split:?} {coarse:?}");
    assert!(split.1 < fine.1 && split.1 > coarse.1, "{split:?} {coarse:?} {fine:?}");
    // Every part is listed and named.
    let listed = program("qsf-inspect").arg(file("split.qsf")).args("--tensors --json").run().json();
    let tensors = listed["tensors"].as_array().unwrap();
    let parts: Vec<(&str, u64)> = tensors
        .iter()
        .filter(|t| t["kind"].as_str().unwrap().starts_with("token_embedding"))
        .map(|t| (t["type"].as_str().unwrap(), t["rows"].as_u64().unwrap()))
        .collect();
    let rows: u64 = parts.iter().map(|part| part.1).sum();
    assert_eq!(parts[1..], [("8bit", 32), ("n5", 128)]);
    assert_eq!(parts[0], ("n3", rows - 160));
    program("qsf-inspect").arg(file("split.qsf")).args("--verify").run().ok();
}

#[test]
fn a_size_gives_frequent_tokens_larger_types_and_less_divergence_than_one_type_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = |name: &str| dir.path().join(name);
    let text = format!("--target-size 420kB --calibration {CALIBRATION} --calibration-tokens 8192");
    convert(&model, &file("chosen.qsf"), &text).run().ok();
    let listed = program("qsf-inspect").arg(file("chosen.qsf")).args("--tensors --json").run().json();
    let parts = listed["tensors"].as_array().unwrap().iter();
    let parts = parts.filter(|t| t["kind"].as_str().unwrap().starts_with("token_embedding")).count();
    assert!(parts > 1, "{listed}");
    let chosen = divergence(&file("chosen.qsf"), &model);
    for ty in ["x3", "x4"] {
        let one = file(&format!("{ty}.qsf"));
        convert(&model, &one, &format!("{text} --tensor-type token_embedding={ty}")).run().ok();
        let one = divergence(&one, &model);
        assert!(chosen < one, "{chosen}, with all rows in {ty} {one}");
    }
}

#[test]
fn the_model_is_the_same_in_memory_within_a_budget_and_after_another_conversion() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = |name: &str| dir.path().join(name);
    let (split, again) = (file("split.qsf"), file("again.qsf"));
    convert(&model, &split, &format!("--quant n4 --tensor-type {FORM}")).run().ok();
    let text = |args: &str| {
        let call = program("qsf-run").arg(&split).args(&format!("-p Once --temp 0 -n 40 --json {args}"));
        call.run().json()["text"].as_str().unwrap().to_owned()
    };
    let alike = "--activations int8 --kv-type f16 --ctx 256";
    assert_eq!(text(alike), text(&format!("{alike} --ram-budget 24MB")));
    // As floats it has the same values, token for token.
    convert(&split, &again, "--quant f32").run().ok();
    let distance = divergence(&again, &split);
    assert!(distance < 1e-3, "{distance}");
}

#[test]
fn a_plan_keeps_such_rows_and_makes_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (direct, replayed, plan) =
        (dir.path().join("direct.qsf"), dir.path().join("replayed.qsf"), dir.path().join("plan.json"));
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 1500");
    let args = format!("--quant n3 --tensor-type {FORM} {text} --save-plan {}", plan.display());
    convert(&model, &direct, &args).run().ok();
    let saved: Value = serde_json::from_str(&fs::read_to_string(&plan).unwrap()).unwrap();
    assert_eq!(saved["types"]["token_embedding"], FORM.split_once('=').unwrap().1);
    convert(&model, &replayed, &format!("--plan {}", plan.display())).run().ok();
    assert!(fs::read(&direct).unwrap() == fs::read(&replayed).unwrap(), "other bytes by the plan");
    // What a plan cannot have is refused by name, and nothing is made.
    let text = fs::read_to_string(&plan).unwrap();
    for (from, to, part) in [("8bit:32", "8bit:99999999", "fewer"), ("8bit:32", "8bit:0", "n5:1024")] {
        // Behind the options that the plan was made with, which also name the form.
        let (options, types) = text.split_once("\"types\":").unwrap();
        fs::write(&plan, format!("{options}\"types\":{}", types.replacen(from, to, 1))).unwrap();
        let call = convert(&model, &dir.path().join("no.qsf"), &format!("--plan {}", plan.display()));
        refused(to, dir.path(), call, 3, &["plan.json", part]);
    }
}

/// A mixture of eight experts with random weights, two of which a token goes through, and the tokenizer of the embedded model.
fn mixture(dir: &Path) -> PathBuf {
    let model = dir.join("mixture");
    write_mixtral(&model, Size { layers: 2, hidden: 128, ffn: 64, vocab: 2048 }, 8, 5);
    fs::copy(demo_model(dir).join("tokenizer.json"), model.join("tokenizer.json")).unwrap();
    model
}

/// Which experts matter is measured again where a plan is repeated, and must come out the same, whatever effort asks for.
#[test]
fn a_size_gives_experts_their_own_types_and_a_plan_repeats_them() {
    let dir = tempfile::tempdir().unwrap();
    let model = mixture(dir.path());
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 8192");
    for effort in ["low", "normal"] {
        let file = |name: &str| dir.path().join(format!("{effort}-{name}.qsf"));
        let plan = dir.path().join(format!("{effort}.json"));
        let args = format!("--effort {effort} --target-bpw 4.5 {text} --save-plan {}", plan.display());
        convert(&model, &file("chosen"), &args).run().ok();
        let listed = program("qsf-inspect").arg(file("chosen")).args("--tensors --json").run().json();
        let tensors = listed["tensors"].as_array().unwrap().iter();
        let is_part = |t: &&Value| {
            let kind = t["kind"].as_str().unwrap();
            kind.starts_with("expert_") && kind.contains('.')
        };
        let parts: Vec<u64> = tensors.filter(is_part).map(|t| t["rows"].as_u64().unwrap()).collect();
        assert!(!parts.is_empty() && parts.iter().all(|rows| rows % 64 == 0), "{effort}: {listed}");
        convert(&model, &file("repeated"), &format!("--plan {}", plan.display())).run().ok();
        let bytes = |name: &str| fs::read(file(name)).unwrap();
        assert!(bytes("chosen") == bytes("repeated"), "{effort}: other bytes by the plan");
    }
}

#[test]
fn forms_that_cannot_be_are_refused_before_anything_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    for (out, args, parts) in [
        (
            "a.qsf",
            "--tensor-type attn_q=n5:16/n3",
            &["token_embedding, head and stacks of experts", "attn_q"][..],
        ),
        ("b.qsf", "--tensor-type token_embedding=n5:16777216/n3", &["more rows"]),
        ("c.qsf", "--tensor-type token_embedding=n5/n3", &["n5:1024/n4:4096/n3"]),
        ("d.qsf", "--tensor-type token_embedding=n5:16/n3+1%", &["no outliers"]),
        (
            "f.qsf",
            "--tensor-type token_embedding=n5:16/n3 --clusters 4",
            &["--clusters", "token_embedding is n5:16/n3"],
        ),
        ("e.gguf", "--quant Q4_K_M --tensor-type token_embedding=n5:16/Q4_K", &["only QSF files"]),
    ] {
        refused(args, dir.path(), convert(&model, &dir.path().join(out), args), 2, parts);
    }
}
