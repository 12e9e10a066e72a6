//! Adapters: what PEFT and transformers compute with them is computed here, whatever the model is stored in.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");

/// The models that there are adapters for (`scripts/make_lora.py`).
const MODELS: [&str; 6] = ["gpt2", "gpt_neox", "gptj", "llama", "mistral", "phi3"];

fn model(name: &str) -> PathBuf {
    Path::new(FIXTURES).join("golden").join(name)
}

fn adapter(name: &str) -> PathBuf {
    Path::new(FIXTURES).join("lora").join(name)
}

/// How far a model with these adapters is from what PEFT computes with that of `name`.
fn agreement(model: &Path, name: &str, adapters: &[&str]) -> (f64, bool) {
    let mut call =
        program("qsf-eval").arg(model).arg("--golden").arg(adapter(name).join("expected.safetensors"));
    for adapter in adapters {
        call = call.arg("--lora").arg(adapter);
    }
    let report = call.arg("--json").run().json();
    (report["logits_relative_error"].as_f64().unwrap(), report["greedy_equal"].as_bool().unwrap())
}

#[test]
fn every_adapter_computes_what_peft_computes() {
    let there = fs::read_dir(Path::new(FIXTURES).join("lora")).unwrap().count();
    assert_eq!(there, MODELS.len());
    for name in MODELS {
        let path = adapter(name);
        let (error, greedy) = agreement(&model(name), name, &[path.to_str().unwrap()]);
        assert!(error < 1e-5 && greedy, "{name}: {error}");
        let (without, _) = agreement(&model(name), name, &[]);
        assert!(without > 1e-2, "{name}: the adapter changes something ({without})");
    }
}

#[test]
fn adapters_of_llama_cpp_compute_what_those_that_they_were_made_of_do() {
    for name in ["llama", "phi3"] {
        let file = adapter(name).join("adapter.gguf");
        let (error, greedy) = agreement(&model(name), name, &[file.to_str().unwrap()]);
        assert!(error < 1e-5 && greedy, "{name}: {error}");
    }
}

#[test]
fn scales_of_several_adapters_add_up() {
    let path = adapter("llama");
    let (half, same) = (format!("{}=0.5", path.display()), format!("{}=2", path.display()));
    let (error, greedy) = agreement(&model("llama"), "llama", &[&half, &half]);
    assert!(error < 1e-5 && greedy, "{error}");
    let back = format!("{}=-1", path.display());
    let (error, _) = agreement(&model("llama"), "llama", &[&same, &back]);
    assert!(error < 1e-5, "{error}");
    assert!(agreement(&model("llama"), "llama", &[&half]).0 > 1e-2);
}

#[test]
fn quantized_weights_have_adapters_too_within_a_budget_or_without() {
    let dir = tempfile::tempdir().unwrap();
    let (source, file) = (demo_model(dir.path()), dir.path().join("model.qsf"));
    program("qsf-convert").arg(&source).arg(&file).args("--quant 4bit").run().ok();
    let lora = dir.path().join("lora");
    demo_adapter(&lora);
    let run = |more: &str| {
        let call = program("qsf-run").arg(&file).args("-p Once -n 24 --temp 0 --json").args(more);
        call.arg("--lora").arg(&lora).run().json()["token_ids"].clone()
    };
    let plain = program("qsf-run").arg(&file).args("-p Once -n 24 --temp 0 --json").run().json();
    let (all, small) = (run(""), run("--ram-budget 24MB --kv-type f16"));
    assert_ne!(all, plain["token_ids"], "the adapter changes something");
    assert_eq!(all, small, "weights that come from disk have the same adapter");
    assert_eq!(all, run("-t 1"), "the same on any number of threads");
}

#[test]
fn adapters_that_do_not_fit_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let lora = |change: &dyn Fn(&mut String)| {
        let path = dir.path().join("lora");
        fs::create_dir_all(&path).unwrap();
        let from = adapter("llama");
        fs::copy(from.join("adapter_model.safetensors"), path.join("adapter_model.safetensors")).unwrap();
        let mut config = fs::read_to_string(from.join("adapter_config.json")).unwrap();
        change(&mut config);
        fs::write(path.join("adapter_config.json"), config).unwrap();
        program("qsf-run").arg(model("llama")).args("--prompt-ids 1,2 -n 1").arg("--lora").arg(path)
    };
    let swap = |from: &'static str, to: &'static str| {
        move |config: &mut String| {
            assert!(config.contains(from));
            *config = config.replace(from, to);
        }
    };
    let path = dir.path();
    refused("DoRA", path, lora(&swap("\"use_dora\": false", "\"use_dora\": true")), 4, &["DoRA"]);
    refused("bias", path, lora(&swap("\"bias\": \"none\"", "\"bias\": \"all\"")), 4, &["bias"]);
    refused("rank", path, lora(&swap("\"r\": 4", "\"r\": 8")), 3, &["rank", "4", "8"]);
    let saved = swap("\"modules_to_save\": null", "\"modules_to_save\": [\"norm\"]");
    refused("modules", path, lora(&saved), 4, &["modules_to_save"]);
    refused("IA3", path, lora(&swap("\"LORA\"", "\"IA3\"")), 4, &["IA3"]);
    refused("unknown", path, lora(&swap("\"use_dora\"", "\"use_soon\": 1, \"use_dora\"")), 4, &["use_soon"]);
    let other = |name: &str, lora: PathBuf| {
        program("qsf-run").arg(model(name)).args("--prompt-ids 1,2 -n 1").arg("--lora").arg(lora)
    };
    refused("another model", path, other("gpt2", adapter("llama")), 3, &["lm_head", "shape"]);
    refused(
        "another model",
        path,
        other("phi3", adapter("llama").join("adapter.gguf")),
        3,
        &["llama", "phi3"],
    );
    refused("no adapter", path, other("llama", model("llama")), 3, &["adapter_config.json"]);
    refused("no file", path, other("llama", path.join("none")), 3, &["none"]);
    refused("a scale", path, other("llama", "lora=inf".into()), 2, &["finite"]);
    let eval = program("qsf-eval").arg(model("llama")).args("-f x --part 1/2 --part-out y --lora z");
    refused("a part", path, eval, 2, &["--lora", "--part"]);
}

#[test]
fn a_merged_model_computes_what_one_with_the_adapter_does() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["gpt2", "gpt_neox", "mistral", "phi3"] {
        let file = dir.path().join(format!("{name}.qsf"));
        let convert = || {
            let call = program("qsf-convert").arg(model(name)).arg(&file).args("--quant f32 --force");
            call.arg("--merge-lora")
        };
        convert().arg(adapter(name)).run().ok();
        let (error, greedy) = agreement(&file, name, &[]);
        assert!(error < 1e-5 && greedy, "{name}: {error}");
        let info = program("qsf-inspect").arg(&file).args("--json").run().json().to_string();
        assert!(info.contains("adapter_model.safetensors"), "{name}: the file says what it was made of");
        // Half of it twice is all of it.
        let half = format!("{}=0.5", adapter(name).display());
        convert().arg(&half).arg("--merge-lora").arg(&half).run().ok();
        assert!(agreement(&file, name, &[]).0 < 1e-5, "{name}");
    }
}

#[test]
fn a_model_is_quantized_and_calibrated_with_its_adapter() {
    let dir = tempfile::tempdir().unwrap();
    let (source, lora) = (demo_model(dir.path()), dir.path().join("lora"));
    demo_adapter(&lora);
    let merged = dir.path().join("merged-hf");
    let to = |out: &Path, more: &str| {
        program("qsf-convert").arg(&source).arg(out).args(more).arg("--merge-lora").arg(&lora).run().ok();
    };
    to(&merged, "--to hf --dtype f32");
    let calibrated = format!("--quant 4bit --calibration {CALIBRATION} --calibration-tokens 2048");
    for more in ["--quant 4bit", &calibrated] {
        let (at_once, after) = (dir.path().join("a.qsf"), dir.path().join("b.qsf"));
        to(&at_once, &format!("{more} --force"));
        program("qsf-convert").arg(&merged).arg(&after).args(&format!("{more} --force")).run().ok();
        let equal = program("qsf-inspect").arg("diff").arg(&at_once).arg(&after).run();
        assert_eq!(equal.code, 0, "{more}: {}{}", equal.stdout, equal.stderr);
    }
}

#[test]
fn adapters_that_cannot_be_merged_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let convert = |model: PathBuf, more: &str| {
        program("qsf-convert").arg(model).arg("out.qsf").arg("--merge-lora").args(more)
    };
    let path = dir.path();
    let lora = adapter("llama").display().to_string();
    refused("another model", path, convert(model("gpt2"), &lora), 3, &["lm_head", "shape"]);
    refused(
        "a plan",
        path,
        convert(model("llama"), &format!("{lora} --save-plan x.json")),
        2,
        &["--save-plan"],
    );
    refused("no adapter", path, convert(model("llama"), "none"), 3, &["none"]);
}

/// `file` with the adapter at `lora` in it.
fn embed(file: &Path, lora: &str, out: &Path) -> Program {
    program("qsf-convert").arg(file).arg(out).arg("--embed-lora").arg(lora)
}

#[test]
fn an_adapter_in_the_file_is_applied_unless_it_is_switched_off() {
    let dir = tempfile::tempdir().unwrap();
    for name in MODELS {
        let [plain, file, merged] =
            ["plain", "embedded", "merged"].map(|end| dir.path().join(format!("{name}-{end}.qsf")));
        program("qsf-convert").arg(model(name)).arg(&plain).args("--quant f32").run().ok();
        let path = adapter(name);
        embed(&plain, path.to_str().unwrap(), &file).run().ok();
        let (error, greedy) = agreement(&file, name, &[]);
        assert!(error < 1e-5 && greedy, "{name}: {error}");
        let golden = adapter(name).join("expected.safetensors");
        let call = program("qsf-eval").arg(&file).arg("--golden").arg(&golden).args("--no-lora --json");
        let without = call.run().json();
        assert!(without["logits_relative_error"].as_f64().unwrap() > 1e-2, "{name}");
        assert_eq!(without["lora"].as_array().unwrap().len(), 0);
        program("qsf-inspect").arg(&file).arg("--verify").run().ok();
        // Whoever converts the file once more means the model that it is. A tied head cannot be merged.
        if can_be_merged(name) {
            let call = program("qsf-convert").arg(&file).arg(&merged).args("--quant f32").run();
            assert!(call.code == 0 && call.stderr.contains("merged into the matrices"), "{}", call.stderr);
            assert!(agreement(&merged, name, &[]).0 < 1e-5, "{name}");
        }
    }
}

/// Whether the adapter of `name` leaves a head alone that has the embedding's matrix.
fn can_be_merged(name: &str) -> bool {
    ["gpt2", "gpt_neox", "mistral", "phi3"].contains(&name)
}

#[test]
fn an_adapter_in_a_quantized_file_gives_the_tokens_of_the_one_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let [file, out, both] = ["model.qsf", "with.qsf", "both.qsf"].map(|name| dir.path().join(name));
    program("qsf-convert").arg(demo_model(dir.path())).arg(&file).args("--quant 4bit").run().ok();
    let lora = dir.path().join("lora");
    demo_adapter(&lora);
    let half = format!("{}=0.5", lora.display());
    let said = embed(&file, &half, &out).run().ok();
    assert!(said.stdout.contains("adapter lora, scale 0.5"), "{}", said.stdout);
    let run = |file: &Path, more: &[&str]| {
        let call = program("qsf-run").arg(file).args("-p Once -n 24 --temp 0 --json");
        more.iter().fold(call, |call, word| call.arg(word)).run().json()["token_ids"].clone()
    };
    let beside = run(&file, &["--lora", &half]);
    assert_ne!(beside, run(&file, &[]), "the adapter changes something");
    assert_eq!(run(&out, &[]), beside);
    assert_eq!(run(&out, &["--no-lora"]), run(&file, &[]));
    assert_eq!(
        run(&out, &["--ram-budget", "24MB", "--kv-type", "f16"]),
        beside,
        "weights that come from disk"
    );
    assert_eq!(run(&out, &["--lora", &half]), run(&file, &["--lora", &half, "--lora", &half]), "both add up");
    // A second one beside the first.
    embed(&out, &half, &both).run().ok();
    assert_eq!(run(&both, &[]), run(&file, &["--lora", &half, "--lora", &half]));
    let listed = program("qsf-inspect").arg(&both).arg("--json").run().json();
    assert_eq!(listed["lora"].as_array().unwrap().len(), 2);

    let path = dir.path();
    refused("a file that is there", path, embed(&file, &half, &out), 2, &["exists"]);
    refused("no QSF file", path, embed(&model("llama"), &half, &path.join("x")), 2, &["convert it first"]);
    refused(
        "another model",
        path,
        embed(&file, adapter("llama").to_str().unwrap(), &path.join("x")),
        3,
        &["shape"],
    );
    // A damaged byte of the section is found by whoever opens the file.
    let mut bytes = fs::read(&out).unwrap();
    let sections = program("qsf-inspect").arg(&out).arg("--json").run().json()["sections"].clone();
    let section =
        sections.as_array().unwrap().iter().find(|section| section["tag"] == "LORA").unwrap().clone();
    let at = section["offset"].as_u64().unwrap() + section["stored_bytes"].as_u64().unwrap() / 2;
    bytes[at as usize] ^= 1;
    fs::write(path.join("damaged.qsf"), bytes).unwrap();
    let call = program("qsf-run").arg(path.join("damaged.qsf")).args("-p Once -n 1");
    refused("a damaged adapter", path, call, 3, &["LORA"]);
}
