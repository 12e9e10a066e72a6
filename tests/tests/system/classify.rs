//! Classification: each prompt gets the probabilities that its logits give, in the order of the prompts.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::source::QsfSource;
use qsf_runtime::{Decoder, KvOptions, Model, Tokenizer};
use qsf_tests::*;
use serde_json::{Value, json};

/// Short and long ones, so that they share steps with others and have some for themselves.
fn prompts() -> Vec<String> {
    let text = fs::read_to_string(TEXT).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let lengths = [1, 3, 9, 2, 150, 5, 230, 4, 30, 70, 1, 6];
    lengths.iter().enumerate().map(|(at, length)| words[40 * at..][..*length].join(" ")).collect()
}

fn write_prompts(dir: &Path) -> PathBuf {
    let lines = prompts().into_iter().enumerate().map(|(at, prompt)| json!({"prompt": prompt, "id": at}));
    let path = dir.join("prompts.jsonl");
    fs::write(&path, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    path
}

fn results(output: &Output) -> Vec<Value> {
    assert_eq!(output.code, 0, "{}", output.stderr);
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Log-probabilities of all tokens behind a prompt, in f64.
fn expected(decoder: &Decoder, tokens: &[u32]) -> Vec<f64> {
    let mut state = decoder.state_with(tokens.len(), tokens.len(), KvOptions::default()).unwrap();
    decoder.forward(&mut state, tokens).unwrap();
    let mut logits = vec![0.0; decoder.model().config.vocab as usize];
    decoder.logits(&mut state, tokens.len() - 1..tokens.len(), &mut logits).unwrap();
    let all = logits.iter().map(|l| f64::from(*l).exp()).sum::<f64>().ln();
    logits.iter().map(|l| f64::from(*l) - all).collect()
}

#[test]
fn probabilities_are_those_of_each_prompt_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (source, model) = (demo_model(dir.path()), dir.path().join("model.qsf"));
    program("qsf-convert").arg(&source).arg(&model).run().ok();
    let file = write_prompts(dir.path());
    let json = fs::read(source.join("tokenizer.json")).unwrap();
    let tokenizer = Tokenizer::from_json(&json, &source).unwrap();
    let loaded = Model::load(&QsfSource::open(&model).unwrap()).unwrap();
    let decoder = Decoder::new(loaded.into(), Cpu::new(Isa::best()), None);
    let labels = [" the", " was", "."];
    let call = || program("qsf-run").arg(&model).args("-t 2 --kv-type f32 --classify").arg(&file);
    let with_labels = labels.iter().fold(call(), |call, label| call.arg("--label").arg(label));
    let (with_labels, without) = (results(&with_labels.run()), results(&call().run()));
    assert_eq!((with_labels.len(), without.len()), (12, 12));
    for (at, prompt) in prompts().iter().enumerate() {
        let tokens = tokenizer.encode(prompt).unwrap();
        let expected = expected(&decoder, &tokens);
        let (found, best) = (&with_labels[at], &without[at]);
        for line in [found, best] {
            assert_eq!(
                (&line["line"], &line["id"], &line["prompt"]),
                (&json!(at + 1), &json!(at), &json!(prompt))
            );
            assert_eq!(line["prompt_tokens"], tokens.len());
        }
        let of_labels = labels.map(|label| expected[tokenizer.encode_plain(label).unwrap()[0] as usize]);
        for (found, expected) in found["log_probabilities"].as_array().unwrap().iter().zip(of_labels) {
            assert!((found.as_f64().unwrap() - expected).abs() < 1e-4, "{found} {expected}");
        }
        let largest =
            |values: &[f64]| (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap();
        assert_eq!(found["label"], labels[largest(&of_labels)]);
        let likeliest = largest(&expected);
        assert_eq!(best["label"], tokenizer.decode(&[likeliest as u32], false).unwrap());
        assert!((best["log_probability"].as_f64().unwrap() - expected[likeliest]).abs() < 1e-4);
        assert!(best["log_probabilities"].is_null());
    }
}

#[test]
fn a_budget_changes_nothing_and_results_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (source, model) = (demo_model(dir.path()), dir.path().join("model.qsf"));
    program("qsf-convert").arg(&source).arg(&model).run().ok();
    let file = write_prompts(dir.path());
    let call =
        |args: &str| program("qsf-run").arg(&model).args("-t 2").args(args).arg("--classify").arg(&file);
    let whole = call("--kv-type f16").run().ok().stdout;
    let within = call("--kv-type f16 --ram-budget 100").run();
    assert_eq!((within.code, &within.stdout), (0, &whole), "{}", within.stderr);
    let out = dir.path().join("out.jsonl");
    let third = whole.match_indices('\n').nth(2).unwrap().0 + 1;
    for left in [third, third + 70, whole.len()] {
        fs::write(&out, &whole.as_bytes()[..left]).unwrap();
        call("--kv-type f16").arg("--results").arg(&out).run().ok();
        assert_eq!(fs::read_to_string(&out).unwrap(), whole, "{left}");
    }
}

#[test]
fn labels_that_nothing_tells_apart_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = write_prompts(dir.path());
    let run = |args: &[&str]| {
        let call = program("qsf-run").arg(&model).arg("--classify").arg(&file);
        args.iter().fold(call, |call, arg| call.arg(arg)).run()
    };
    for (args, said) in [
        (&["--label", " the", "--label", " the"][..], "the same token"),
        (&["--label", ""], "no token"),
        (&["-n", "3"], "--max-tokens"),
        (&["--temp", "0.5"], "--temperature"),
        (&["--sequences", "2"], "--sequences"),
        (&["-p", "a"], "--prompt"),
        (&["--prompts", "x"], "--prompts"),
    ] {
        let output = run(args);
        assert_eq!(output.code, 2, "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(said), "{args:?}: {}", output.stderr);
    }
    assert_eq!(program("qsf-run").arg(&model).args("-p a --label x").run().code, 2);
}
