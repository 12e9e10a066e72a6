//! The job that the project exists for: a model directory becomes a file, and the file does what the model did. On the
//! embedded model, so on every machine.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use serde_json::Value;

/// Enough positions for an order of types, few enough for a run in a fraction of a second.
const CHUNKS: &str = "--ctx 128 --chunks 8 --json";

/// Converts with `args` and gives the file.
#[track_caller]
fn convert(model: &Path, out: &Path, args: &str) -> PathBuf {
    program("qsf-convert").arg(model).arg(out).args(args).run().ok();
    out.to_owned()
}

#[track_caller]
fn evaluate(model: &Path) -> Value {
    program("qsf-eval").arg(model).arg("--file").arg(TEXT).args(CHUNKS).run().json()
}

#[track_caller]
fn divergence(model: &Path, base: &Path) -> Value {
    program("qsf-eval").arg(model).arg("--file").arg(TEXT).arg("--base").arg(base).args(CHUNKS).run().json()
}

#[track_caller]
fn inspect(file: &Path, args: &str) -> Value {
    program("qsf-inspect").arg(file).args(args).arg("--json").run().json()
}

/// Stored type of every tensor of a kind, which must be one.
#[track_caller]
fn type_of(tensors: &Value, kind: &str) -> String {
    let mut types: Vec<&str> = tensors["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tensor| tensor["kind"] == kind)
        .map(|tensor| tensor["type"].as_str().unwrap())
        .collect();
    types.dedup();
    assert_eq!(types.len(), 1, "{kind}: {types:?}");
    types[0].to_owned()
}

#[test]
fn every_type_at_every_block_size_converts_verifies_loads_and_predicts() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    for quant in ["2bit", "2bit-sym", "3bit", "4bit", "ternary", "8bit", "f16", "bf16", "f32", "mixed"] {
        let has_blocks = !["f16", "bf16", "f32"].contains(&quant);
        for block in [32, 64, 256].into_iter().filter(|block| has_blocks || *block == 64) {
            let out = dir.path().join(format!("{quant}-{block}.qsf"));
            convert(&model, &out, &format!("--quant {quant} --block-size {block}"));
            let file = inspect(&out, "--verify");
            assert_eq!(file["type"], quant);
            assert_eq!(file["block_size"], block);
            assert_eq!(file["verified"]["layers"], 4);
            // 4 layers of 9 tensors, the final norm and the embedding.
            assert_eq!(file["verified"]["tensors"], 38);
            let ppl = evaluate(&out)["ppl"].as_f64().unwrap();
            // Worse than picking any of the 2048 tokens blindly would mean that the weights were not read as written;
            // 2-bit rounding without calibration may come close to that.
            assert!(ppl.is_finite() && ppl > 1.0 && ppl < 4096.0, "{quant} {block}: {ppl}");
        }
    }
}

#[test]
fn a_float_recipe_loses_nothing_of_a_half_precision_model() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let source = evaluate(&model)["ppl"].as_f64().unwrap();
    for (quant, tolerance) in [("f32", 1e-9), ("f16", 1e-9), ("bf16", 1e-2)] {
        let out = convert(&model, &dir.path().join(format!("{quant}.qsf")), &format!("--quant {quant}"));
        let ppl = evaluate(&out)["ppl"].as_f64().unwrap();
        assert!((ppl / source - 1.0).abs() <= tolerance, "{quant}: {ppl}, source {source}");
    }
}

#[test]
fn fewer_bits_are_smaller_and_further_from_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let mut before = (u64::MAX, 0.0);
    for quant in ["8bit", "4bit", "3bit", "2bit"] {
        let out = convert(&model, &dir.path().join(format!("{quant}.qsf")), &format!("--quant {quant}"));
        let now =
            (fs::metadata(&out).unwrap().len(), divergence(&out, &model)["kld"]["mean"].as_f64().unwrap());
        assert!(now.0 < before.0 && now.1 > before.1, "{quant}: bytes and KLD {now:?} after {before:?}");
        before = now;
    }
    let same = divergence(&model, &model);
    assert_eq!(same["kld"]["max"], 0.0, "a model is at no distance from itself");
    assert_eq!(same["top1"], 100.0);
}

#[test]
fn mixed_gives_each_tensor_the_type_that_the_help_promises() {
    let dir = tempfile::tempdir().unwrap();
    let out = convert(&demo_model(dir.path()), &dir.path().join("llama.qsf"), "--quant mixed");
    let tensors = inspect(&out, "--tensors");
    for kind in ["attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"] {
        assert_eq!(type_of(&tensors, kind), "2bit", "{kind}");
    }
    for kind in ["attn_output", "ffn_down", "token_embedding"] {
        assert_eq!(type_of(&tensors, kind), "4bit", "{kind}");
    }
    for kind in ["attn_norm", "ffn_norm", "final_norm"] {
        assert_eq!(type_of(&tensors, kind), "f16", "{kind}");
    }
    write_gpt2(&dir.path().join("gpt2"), Size::TINY, 1);
    let out = convert(&dir.path().join("gpt2"), &dir.path().join("gpt2.qsf"), "--quant mixed");
    let tensors = inspect(&out, "--tensors");
    for (kind, quant) in
        [("attn_k", "2bit"), ("ffn_down", "4bit"), ("positions", "8bit"), ("attn_q_bias", "f16")]
    {
        assert_eq!(type_of(&tensors, kind), quant, "{kind}");
    }
}

#[test]
fn tensor_type_overrides_the_recipe_and_one_that_matches_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let call = |rules: &[&str]| {
        let call =
            program("qsf-convert").arg(&model).arg(dir.path().join("out.qsf")).args("--quant 4bit --force");
        rules.iter().fold(call, |call, rule| call.arg("--tensor-type").arg(rule)).run()
    };
    call(&["attn_v=8bit", "layer 0 *=f16", "token_embedding=3"]).ok();
    let tensors = inspect(&dir.path().join("out.qsf"), "--tensors --verify");
    for tensor in tensors["tensors"].as_array().unwrap() {
        let (layer, kind) = (tensor["layer"].as_u64(), tensor["kind"].as_str().unwrap());
        let expected = match (layer, kind) {
            (Some(0), _) | (_, "attn_norm" | "ffn_norm" | "final_norm") => "f16",
            (_, "attn_v") => "8bit",
            (_, "token_embedding") => "3bit",
            _ => "4bit",
        };
        assert_eq!(tensor["type"], expected, "{layer:?} {kind}");
    }
    let ppl = evaluate(&dir.path().join("out.qsf"))["ppl"].as_f64().unwrap();
    assert!(ppl.is_finite());

    let before = Snapshot::of(dir.path());
    for (rule, says) in [("attn_z=8bit", "attn_z"), ("*norm=8bit", "only vectors"), ("attn_v=9bit", "9bit")] {
        let output = call(&[rule]);
        assert_eq!(output.code, 2, "{rule}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{rule}: {}", output.stderr);
    }
    assert_eq!(before.changes(&Snapshot::of(dir.path())), Vec::<String>::new());
}

#[test]
fn without_an_output_name_the_file_is_named_after_model_and_type_in_the_current_folder() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let here = dir.path().join("here");
    fs::create_dir(&here).unwrap();
    for (args, name) in [
        ("", "demo-1m-n4.qsf"),
        ("-q 2", "demo-1m-2bit.qsf"),
        ("--quant-type MIXED", "demo-1m-mixed.qsf"),
        ("--quant ternary --q-group-size 32", "demo-1m-ternary.qsf"),
    ] {
        let output = program("qsf-convert").arg(&model).args(args).dir(&here).run().ok();
        assert!(output.stdout.contains(&format!("{name}: written and verified")), "{}", output.stdout);
        assert!(here.join(name).is_file(), "{name}");
    }
    // A folder given as "." still has a name.
    program("qsf-convert").args(". --quant 8bit").dir(&model).run().ok();
    assert!(model.join("demo-1m-8bit.qsf").is_file());
}

#[test]
fn force_replaces_a_file_and_its_absence_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    fs::write(&out, "precious").unwrap();
    let refused = program("qsf-convert").arg(&model).arg(&out).run();
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("out.qsf") && refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(fs::read(&out).unwrap(), b"precious");
    convert(&model, &out, "--force --quant 2bit");
    inspect(&out, "--verify");
}

#[test]
fn a_dry_run_predicts_the_size_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let here = dir.path().join("here");
    fs::create_dir(&here).unwrap();
    let prediction =
        program("qsf-convert").arg(&model).args("--dry-run --json --quant 3bit").dir(&here).run().json();
    assert_eq!(fs::read_dir(&here).unwrap().count(), 0);
    let tensors = inspect(&convert(&model, &dir.path().join("3.qsf"), "--quant 3bit"), "--tensors");
    let stored: u64 =
        tensors["tensors"].as_array().unwrap().iter().map(|t| t["stored_bytes"].as_u64().unwrap()).sum();
    assert_eq!(prediction["predicted_weight_bytes"], stored);
    assert_eq!(prediction["weights"], 1_049_728);
    assert_eq!(prediction["predicted_kld_mean"], Value::Null);
}

#[test]
fn json_of_every_program_has_the_documented_fields_and_nothing_around_it() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    let converted = program("qsf-convert").arg(&model).arg(&out).args("--json --quant 2bit").run().json();
    assert_eq!(converted["file_bytes"], fs::metadata(&out).unwrap().len());
    assert_eq!(converted["model"], "demo-1m");
    assert_eq!(converted["type"], "2bit");
    assert_eq!(converted["tensors"].as_array().unwrap().len(), 38);
    let bits = converted["bits_per_weight"].as_f64().unwrap();
    assert_eq!(inspect(&out, "")["bits_per_weight"].as_f64(), Some(bits));

    let evaluated = divergence(&out, &model);
    for field in ["ppl", "ppl_stderr", "base_ppl", "top1", "seconds"] {
        assert!(evaluated[field].as_f64().is_some_and(|v| v > 0.0), "{field}: {evaluated}");
    }
    // 8 chunks, positions 64 to 126 of each.
    assert_eq!(evaluated["tokens"], 8 * 63);
    let kld =
        |field: &str| evaluated["kld"][field].as_f64().unwrap_or_else(|| panic!("{field}: {evaluated}"));
    assert!(kld("mean") > 0.0 && kld("stderr") > 0.0);
    let order = ["p50", "p90", "p99", "p999", "max"].map(kld);
    assert!(order.is_sorted() && order[0] > 0.0, "{order:?}");

    let run = program("qsf-run").arg(&out).args("-p Hello -n 5 --json --seed 7").run().json();
    assert_eq!(run["token_ids"].as_array().unwrap().len(), 5);
    assert_eq!((&run["stop_reason"], &run["seed"]), (&"max_tokens".into(), &7.into()));
    let system = program("qsf-run").args("--system --json").run().json();
    assert!(system["isa_available"].as_array().unwrap().contains(&system["isa"]), "{system}");
    if let Some(cores) = system["physical_cores"].as_u64() {
        assert!(system["threads"].as_u64().is_some_and(|threads| threads <= cores), "{system}");
        let pinned = program("qsf-run").args("--system --json --pin -t 1").run().json();
        assert_eq!((&system["pinned"], &pinned["pinned"]), (&false.into(), &true.into()));
        assert_eq!(pinned["physical_cores"], cores, "pinning hides no cores");
    }
}

#[test]
fn generated_text_follows_the_prompt_and_nothing_else_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let out = convert(&demo_model(dir.path()), &dir.path().join("out.qsf"), "--quant 8bit");
    let call = || program("qsf-run").arg(&out).arg("-p").arg("It was a dark").args("-n 12 --temp 0");
    let json = call().arg("--json").run().json();
    let text = json["text"].as_str().unwrap();
    assert!(!text.is_empty());
    assert_eq!(call().run().ok().stdout, format!("It was a dark{text}\n"));
    // A prompt from a file and as ids gives what it gives as text.
    let prompt = dir.path().join("prompt.txt");
    fs::write(&prompt, "It was a dark").unwrap();
    let ids: Vec<String> =
        json["prompt_token_ids"].as_array().unwrap().iter().map(Value::to_string).collect();
    for call in [
        program("qsf-run").arg(&out).arg("-f").arg(&prompt),
        program("qsf-run").arg(&out).arg("--prompt-ids").arg(ids.join(",")),
    ] {
        assert_eq!(call.args("-n 12 --temp 0 --json").run().json()["token_ids"], json["token_ids"]);
    }
}

#[test]
fn a_seed_repeats_a_sampled_text() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let sample = |seed: u32| {
        let args = format!("-p Hello -n 24 --temp 1.5 --top-k 0 --top-p 1 --seed {seed} --json");
        program("qsf-run").arg(&model).args(&args).run().json()["token_ids"].clone()
    };
    assert_eq!(sample(1), sample(1));
    assert_ne!(sample(1), sample(2));
}

#[test]
fn compression_changes_the_size_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    // Half-precision values as f32 have 13 zero bits each: there is something to save.
    let figures = |method: &str| {
        let out = dir.path().join(format!("{method}.qsf"));
        convert(&model, &out, &format!("--quant f32 --compress {method}"));
        let tensors = inspect(&out, "--verify --tensors")["tensors"].clone();
        let mut value = divergence(&out, &model);
        for of_the_run in ["model", "seconds"] {
            value[of_the_run] = Value::Null;
        }
        (fs::metadata(&out).unwrap().len(), value, tensors)
    };
    let (plain, expected, tensors) = figures("none");
    for method in ["lz4", "zstd"] {
        let (bytes, value, others) = figures(method);
        assert!(bytes < plain * 98 / 100, "{method}: {bytes} of {plain}");
        assert_eq!(value, expected, "{method}");
        assert_eq!(others, tensors, "{method}");
    }
}

#[test]
fn models_without_tokenizer_convert_and_run_on_token_ids() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["llama", "gpt2"] {
        let model = dir.path().join(name);
        match name {
            "llama" => write_llama(&model, Size::TINY, 5),
            _ => write_gpt2(&model, Size::TINY, 5),
        }
        let out = convert(&model, &dir.path().join(format!("{name}.qsf")), "--quant f32");
        inspect(&out, "--verify");
        let tokens = |path: &Path| {
            let args = "--prompt-ids 1,2,3,90 -n 20 --temp 0 --json";
            program("qsf-run").arg(path).args(args).run().json()["token_ids"].clone()
        };
        assert_eq!(tokens(&out), tokens(&model), "{name}");
        let text = program("qsf-run").arg(&out).args("-p text -n 4").run();
        assert_eq!(text.code, 3, "{}", text.stderr);
        assert!(text.stderr.contains("--prompt-ids"), "{}", text.stderr);
    }
}

#[test]
fn the_demo_shows_its_table_and_leaves_files_that_run() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("demo");
    let output = program("qsf-convert").arg("--demo").arg("--demo-dir").arg(&folder).run().ok();
    for column in ["size", "bits/weight", "perplexity", "KLD", "tokens/s"] {
        assert!(output.stdout.contains(column), "{}", output.stdout);
    }
    for quant in ["8bit", "4bit", "mixed", "3bit", "2bit", "ternary"] {
        assert!(output.stdout.lines().any(|line| line.starts_with(quant)), "{quant}: {}", output.stdout);
        inspect(&folder.join(format!("demo-1m-{quant}.qsf")), "--verify");
    }
    // The command that it suggests works as printed.
    let suggests = output.stdout.contains("Try: ") && output.stdout.contains("qsf-run");
    assert!(suggests, "{}", output.stdout);
    program("qsf-run")
        .arg(folder.join("demo-1m-4bit.qsf"))
        .arg("-p")
        .arg("Once upon a time")
        .args("-n 8")
        .run()
        .ok();
}

/// Other systems refuse such names.
#[test]
#[cfg(target_os = "linux")]
fn names_that_are_not_utf_8_are_names_all_the_same() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let dir = tempfile::tempdir().unwrap();
    let name = |bytes: &[u8]| dir.path().join(OsStr::from_bytes(bytes));
    let model = name(b"mod\xffel");
    fs::rename(demo_model(dir.path()), &model).unwrap();
    let (out, text) = (name(b"o\xfe.qsf"), name(b"t\xc3.txt"));
    fs::copy(TEXT, &text).unwrap();
    let converted = program("qsf-convert").arg(&model).arg(&out).arg("--json").run().json();
    assert!(converted["model"].as_str().unwrap().starts_with("mod"), "{converted}");
    assert!(converted["path"].as_str().unwrap().ends_with(".qsf"), "{converted}");
    for args in ["", "--verify", "--tensors --verify"] {
        inspect(&out, args);
        program("qsf-inspect").arg(&out).args(args).run().ok();
    }
    let eval = || {
        let call = program("qsf-eval").arg(&out).arg("--file").arg(&text).arg("--base").arg(&model);
        call.args("--ctx 64 --chunks 1")
    };
    eval().arg("--json").run().json();
    eval().run().ok();
    program("qsf-run").arg(&out).args("-p Hello -n 2 --json").run().json();
    program("qsf-convert").arg(&model).args("--dry-run --json").run().json();
    // Without an output, the file is named after the model.
    let here = dir.path().join("here");
    fs::create_dir(&here).unwrap();
    program("qsf-convert").arg(&model).arg("--json").dir(&here).run().json();
    assert_eq!(leftovers(&here).len(), 1);
}

#[test]
fn what_was_quantized_before_is_asked_about_and_never_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let path = |name: &str| dir.path().join(name);
    let convert =
        |from: &Path, to: &str, args: &str| program("qsf-convert").arg(from).arg(path(to)).args(args).run();
    convert(&model, "4.qsf", "-q 4bit").ok();
    // By way of f16, which asks for nothing, the errors of the 4 bits are still there.
    convert(&path("4.qsf"), "16.qsf", "-q f16").ok();
    let refused = program("qsf-convert").arg(path("16.qsf")).arg(path("8.qsf")).args("-q 8bit").run();
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let dry = program("qsf-convert").arg(path("16.qsf")).args("-q 8bit --dry-run --json").run().json();
    assert_eq!(dry["needs_allow_requantize"], true);
    convert(&path("16.qsf"), "8.qsf", "-q 8bit --allow-requantize").ok();
    for name in ["16.qsf", "8.qsf"] {
        let shown = program("qsf-inspect").arg(path(name)).arg("--json").run().json();
        assert_eq!(shown["provenance"]["requantized_from"], serde_json::json!(["4bit"]), "{name}");
    }
}
