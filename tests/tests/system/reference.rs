//! Agreement with transformers: the figures beside the trained models come from its float32 run, not from this project.

use std::path::Path;

use qsf_tests::*;
use serde_json::Value;

fn reference(model: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(model.join("reference.json")).unwrap()).unwrap()
}

fn ids(value: &Value) -> String {
    value.as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(",")
}

/// Every recorded continuation by token ids, and the first two by their text as well.
fn check_continuations(name: &str) {
    let model = shared(&format!("models/{name}"));
    let greedy = reference(&model)["greedy"].clone();
    let greedy = greedy.as_array().unwrap();
    assert!(greedy.len() >= 2, "{name}: {greedy:?}");
    for (i, expected) in greedy.iter().enumerate() {
        let call = || program("qsf-run").arg(&model).args("-n 48 --temp 0 --json");
        let prompt = expected["prompt"].as_str().unwrap();
        let run = call().arg("--prompt-ids").arg(ids(&expected["prompt_ids"])).run().json();
        assert_eq!(run["token_ids"], expected["greedy_ids"], "{name}: {prompt:?}");
        assert_eq!(run["text"], expected["text"], "{name}: {prompt:?}");
        if i < 2 {
            let run = call().arg("-p").arg(prompt).run().json();
            assert_eq!(run["prompt_token_ids"], expected["prompt_ids"], "{name}: {prompt:?}");
            assert_eq!(run["token_ids"], expected["greedy_ids"], "{name}: {prompt:?}");
        }
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn llama_continues_every_prompt_as_transformers_does() {
    check_continuations("llama-53m");
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn gpt2_continues_every_prompt_as_transformers_does() {
    check_continuations("gpt2-17m");
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn the_embedded_model_continues_every_prompt_as_transformers_does() {
    check_continuations("demo-1m");
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn the_embedded_model_is_the_one_that_the_reference_describes() {
    let model = shared("models/demo-1m");
    let dir = tempfile::tempdir().unwrap();
    let embedded = demo_model(dir.path());
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        assert!(
            std::fs::read(embedded.join(name)).unwrap() == std::fs::read(model.join(name)).unwrap(),
            "{name} differs"
        );
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn golden_comparison_notices_another_model() {
    let llama = shared("golden/llama");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("2bit.qsf");
    program("qsf-convert").arg(&llama).arg(&file).args("--quant 2bit").run().ok();
    let expected = llama.join("expected.safetensors");
    let report = program("qsf-eval").arg(&file).arg("--golden").arg(&expected).arg("--json").run().json();
    assert!(report["logits_relative_error"].as_f64().unwrap() > 1e-2, "{report}");
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn perplexity_on_a_whole_text_is_that_of_transformers() {
    let model = shared("models/demo-1m");
    let text = shared("text/heldout.txt");
    let reference = reference(&model);
    let result =
        program("qsf-eval").arg(&model).arg("--file").arg(&text).args("--ctx 512 --json").run().json();
    assert_eq!(result["tokens"], reference["n_heldout_512"]);
    let (ppl, expected) = (result["ppl"].as_f64().unwrap(), reference["ppl_heldout_512"].as_f64().unwrap());
    assert!((ppl / expected - 1.0).abs() < 1e-3, "{ppl}, by transformers {expected}");
}
