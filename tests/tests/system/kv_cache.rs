//! The key/value cache as users choose it: `--kv-type` of `qsf-run` and `qsf-eval`.

use std::sync::Arc;

use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::{Decoder, KvOptions, Model, source};
use qsf_tests::*;

fn eval(model: &std::path::Path, args: &str) -> serde_json::Value {
    let call = program("qsf-eval").arg(model).arg("--file").arg(TEXT).arg("--base").arg(model);
    call.args("--ctx 256 --chunks 4 --json").args(args).run().json()
}

#[test]
fn f16_is_the_default_and_every_smaller_type_is_further_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let default = eval(&model, "");
    assert_eq!((&default["kv_type"], default["kld"]["mean"].as_f64()), (&"f16".into(), Some(0.0)));
    let mut last = 0.0;
    for (types, most) in [("f32", 1e-5), ("8bit", 1e-3), ("8bit,4bit", 0.03), ("4bit", 0.06), ("2bit", 1.0)] {
        let found = eval(&model, &format!("--kv-type {types}"));
        let kld = found["kld"]["mean"].as_f64().unwrap();
        assert_eq!(found["kv_type"], types);
        assert!(kld > last && kld < most, "{types}: {kld}, before {last}");
        last = kld;
    }
}

#[test]
fn text_is_generated_with_every_type_and_the_type_is_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let run = |args: &str| {
        let call = program("qsf-run").arg(&model).args("-n 12 --temp 0 --json --prompt-ids 5,6,7").args(args);
        call.run().json()
    };
    assert_eq!(run("")["token_ids"], run("--kv-type f16")["token_ids"]);
    for types in ["f32", "f16", "8bit", "8bit,4bit", "2bit"] {
        let found = run(&format!("--kv-type {types}"));
        assert_eq!(found["kv_type"], types);
        assert_eq!(found["token_ids"].as_array().unwrap().len(), 12);
    }
}

#[test]
fn unknown_types_and_places_where_there_is_no_cache_are_usage_errors() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    for types in ["3bit", "8bit,", "8bit,4bit,2bit", "q8_0"] {
        let call = program("qsf-run").arg(&model).args("-p a --kv-type").arg(types);
        refused(types, dir.path(), call, 2, &["8bit,4bit"]);
    }
    for (what, call) in [
        ("system", program("qsf-run").args("--system --kv-type f16")),
        ("kernel", program("qsf-run").args("--kernel 4bit --kv-type f16")),
        ("tokenize", program("qsf-run").arg(&model).args("--tokenize -p a --kv-type f16")),
    ] {
        refused(what, dir.path(), call, 2, &["--kv-type"]);
    }
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn models_with_sliding_windows_give_the_same_bits_with_rings_and_without() {
    for name in ["gemma2", "gemma3", "mistral"] {
        let path = shared(&format!("golden/{name}"));
        let source = source::open(&path).unwrap();
        let model = Model::load(source.as_ref()).unwrap();
        let (vocab, window) = (model.config.vocab, model.config.sliding_window.clone());
        let context = 300.min(model.config.max_positions as usize);
        assert!(window.is_some_and(|window| (window.size as usize) < context), "{name}");
        let decoder = Decoder::new(Arc::new(model), Cpu::new(Isa::best()), None);
        let run = |whole| {
            let kv = KvOptions { whole, ..KvOptions::default() };
            let mut state = decoder.state_with(context, 8, kv).unwrap();
            let tokens: Vec<u32> = (0..context as u32).map(|i| i * 7919 % vocab).collect();
            let mut logits = vec![0.0; vocab as usize];
            let mut all = Vec::new();
            for step in tokens.chunks(8) {
                decoder.forward(&mut state, step).unwrap();
                decoder.logits(&mut state, step.len() - 1..step.len(), &mut logits).unwrap();
                all.extend_from_slice(&logits);
            }
            all
        };
        assert!(run(false) == run(true), "{name}");
    }
}
