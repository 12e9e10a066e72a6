//! Which number type weights and activations really have, and that it is the one reported.

use std::path::Path;

use qsf_tests::*;
use serde_json::Value;

#[test]
fn activations_are_eight_bit_where_any_matrix_has_blocks_and_the_report_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let convert = |name: &str, args: &str| {
        let out = dir.path().join(name);
        program("qsf-convert").arg(&model).arg(&out).args(args).run().ok();
        out
    };
    let partly = convert("partly.qsf", "-q f16 --tensor-type ffn_down=4bit");
    let floats = convert("floats.qsf", "-q f16");
    let blocks = convert("blocks.qsf", "-q 4bit");
    let eval =
        |model: &Path| program("qsf-eval").arg(model).arg("--file").arg(TEXT).args("--ctx 64 --chunks 2");
    for (model, args, expected) in [
        (&partly, "", "int8"),
        (&partly, "--activations int8", "int8"),
        (&partly, "--activations f32", "f32"),
        (&blocks, "", "int8"),
        (&blocks, "--activations f32", "f32"),
        (&floats, "", "f32"),
        (&floats, "--activations f32", "f32"),
        (&model, "", "f32"),
        (&model, "--activations f32", "f32"),
    ] {
        assert_eq!(
            eval(model).args(args).arg("--json").run().json()["activations"],
            expected,
            "{model:?} {args}"
        );
        let text = eval(model).args(args).run().ok().stdout;
        assert!(text.contains(&format!("{expected} activations")), "{model:?} {args}: {text}");
    }
    let ppl = |args: &str| eval(&partly).args(args).arg("--json").run().json()["ppl"].clone();
    assert_ne!(ppl(""), ppl("--activations f32"), "int8 must make a difference");
    for model in [&model, &floats] {
        let call = eval(model).args("--activations int8");
        refused("int8 of floats", dir.path(), call, 2, &["--activations int8", "f32"]);
    }
}

#[test]
fn activations_of_a_run_are_those_asked_for_or_it_says_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = dir.path().join("blocks.qsf");
    program("qsf-convert").arg(&model).arg(&file).args("-q 4bit").run().ok();
    let bench = |model: &Path, args: &str| {
        program("qsf-run").arg(model).args("--bench --pp 80 --tg 0 -r 1 --json").args(args)
    };
    for activations in ["int8", "f32"] {
        let args = format!("--activations {activations}");
        assert_eq!(bench(&file, &args).run().json()["activations"], activations);
    }
    // A prompt long enough for bfloat16.
    let ids = (1..=80).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let generate = |args: &str| {
        program("qsf-run").arg(&file).arg("--prompt-ids").arg(&ids).args("-n 4 --temp 0").args(args)
    };
    let system = program("qsf-run").args("--system").run().ok().stdout;
    let has_wide = system.contains("int8-128-4bit");
    let default = if has_wide { "int8-128" } else { "int8" };
    assert_eq!(generate("--json").run().json()["activations"], default, "long prompts are fast by default");
    assert_eq!(bench(&file, "").run().json()["activations"], default);
    assert_eq!(generate("--json --ram-budget 100").run().json()["activations"], "int8");
    assert_eq!(generate("--activations int8 --json").run().json()["activations"], "int8");
    assert_eq!(generate("--activations f32 --json").run().json()["activations"], "f32");
    let refuse = |what: &str, call: Program, parts: &[&str]| refused(what, dir.path(), call, 2, parts);
    let no_unit = ["--activations int8-128", "avx2", "avx512", "amx"];
    if program("qsf-run").args("--system").env("QSF_CPU", "avx2").run().code == 0 {
        refuse("no unit", generate("--activations int8-128").env("QSF_CPU", "avx2"), &no_unit);
        refuse("no unit", bench(&file, "--activations int8-128").env("QSF_CPU", "avx2"), &no_unit);
    }
    refuse("int8 of floats", bench(&model, "--activations int8"), &["--activations int8", "f32"]);
    if has_wide {
        assert_eq!(bench(&file, "--activations int8-128").run().json()["activations"], "int8-128");
        assert_eq!(generate("--activations int8-128 --json").run().json()["activations"], "int8-128");
        refuse(
            "int8-128 of floats",
            bench(&model, "--activations int8-128"),
            &["--activations int8-128", "f32"],
        );
        let budget = generate("--activations int8-128 --ram-budget 100 --memory-plan");
        refuse("a budget", budget, &["--activations int8-128", "--ram-budget"]);
    }
}

const DOWN: &str = "model.layers.1.mlp.down_proj.weight";

/// The record of that tensor in the report of a conversion, after checking that table and file agree with it.
#[track_caller]
fn down(model: &Path, quant: &str) -> Value {
    let out = model.join("out.qsf");
    let call = || program("qsf-convert").arg(model).arg(&out).args("--force -q").arg(quant);
    let report = call().arg("--json").run().json();
    let records = report["tensors"].as_array().unwrap();
    let record = records.iter().find(|t| t["layer"] == 1 && t["kind"] == "ffn_down").unwrap().clone();
    let table = call().run().ok().stdout;
    let line = table.lines().find(|line| line.starts_with("layer 1 ffn_down")).unwrap();
    let stored = record["quant"].as_str().or(record["type"].as_str()).unwrap();
    assert!(line.contains(stored), "{line}");
    assert_eq!(line.contains(&format!("(instead of {quant})")), stored != quant, "{line}");
    let file = program("qsf-inspect").arg(&out).args("--tensors --verify --json").run().json();
    let tensors = file["tensors"].as_array().unwrap();
    let tensor = tensors.iter().find(|t| t["layer"] == 1 && t["kind"] == "ffn_down").unwrap();
    assert_eq!(tensor["type"], stored);
    // None of its neighbours is concerned.
    let promoted = records.iter().filter(|t| !t["promoted_from"].is_null()).count();
    assert_eq!(promoted, usize::from(stored != quant), "{report}");
    Value::from_iter([("type", Value::from(stored)), ("error", record["relative_error"].clone())])
}

#[test]
fn values_too_small_for_scales_keep_the_type_that_holds_them() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, Size::TINY, 1);
    let mut weights = SafetensorsFile::of_model(&model);
    // All bits of f16 values below 2^-14, with both signs.
    weights.put_half(DOWN, |i| (i as u16).wrapping_mul(40_503) & 0x83ff);
    weights.save();
    for quant in ["4bit", "2bit", "ternary", "8bit", "3bit"] {
        let record = down(&model, quant);
        assert_eq!(
            (&record["type"], record["error"].as_f64()),
            (&"f16".into(), Some(0.0)),
            "{quant}: {record}"
        );
    }
    // The largest of them 2^-14: a scale can be had.
    weights.put_half(DOWN, |i| if i == 77 { 0x0400 } else { i as u16 & 0x03ff });
    weights.save();
    assert_eq!(down(&model, "4bit")["type"], "4bit");
    // Of nothing but zeros, any scale will do.
    weights.put_half(DOWN, |_| 0);
    weights.save();
    assert_eq!(down(&model, "4bit")["type"], "4bit");
}

#[test]
fn values_too_large_for_scales_are_stored_as_floats_of_enough_range() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, Size::TINY, 1);
    let mut weights = SafetensorsFile::of_model(&model);
    for (value, quant, stored) in [
        (65_504.0, "4bit", "4bit"),
        (65_504.0, "f16", "f16"),
        (65_505.0, "4bit", "f32"),
        (-65_505.0, "2bit", "f32"),
        (1e30, "ternary", "f32"),
        (70_000.0, "f16", "f32"),
        (70_000.0, "bf16", "bf16"),
        // Its scale is a 127th of the largest value.
        (70_000.0, "8bit", "8bit"),
        (1e7, "8bit", "f32"),
        (f32::MAX, "8bit", "f32"),
    ] {
        weights.set(DOWN, 5, value);
        weights.save();
        let record = down(&model, quant);
        assert_eq!(record["type"], stored, "{value} as {quant}");
        if stored == "f32" {
            assert_eq!(record["error"].as_f64(), Some(0.0), "{value} as {quant}");
        }
    }
}
