//! `--calibration self`: the model writes the text that its weights are fitted to. The same bytes come of it on every machine, by a
//! plan, in a batch, and after a kill.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use qsf_tests::*;
use serde_json::{Value, json};

const TEMPLATE: &str = "{%- for m in messages %}{{ '<|endoftext|>' + m.role.upper() + ': ' + m.content.strip() + '\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|endoftext|>ASSISTANT: ' }}{% endif %}";

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

/// What `--json` says of the calibration text.
fn calibration(model: &Path, out: &Path, args: &str) -> Value {
    convert(model, out, &format!("{args} --json --force")).run().json()["calibration"].clone()
}

#[test]
fn the_model_writes_the_same_text_on_every_machine_and_the_file_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (small_model(dir.path()), dir.path().join("out.qsf"));
    let args = "-q n3 --calibration self --calibration-tokens 300";
    let bytes = |threads: &str, isa: &str| {
        convert(&model, &out, args).args("--force -t").arg(threads).env("QSF_CPU", isa).run().ok();
        fs::read(&out).unwrap()
    };
    let first = bytes("1", "scalar");
    let available = program("qsf-run").args("--system --json").run().json()["isa_available"].clone();
    for isa in available.as_array().unwrap().iter().filter_map(Value::as_str) {
        for threads in ["1", "2"] {
            assert!(bytes(threads, isa) == first, "other bytes with {threads} threads and {isa}");
        }
    }
    let json = program("qsf-inspect").arg(&out).arg("--json").run().json();
    let recorded = &json["provenance"]["options"]["calibration"];
    assert_eq!(recorded["written_by_model"], json!({"seed": 1, "tokens": 300}));
    let found = calibration(&model, &out, args);
    assert_eq!(found["text_sha256"], recorded["text_sha256"]);
    assert_eq!((&found["tokens"], &found["seed"]), (&json!(300), &json!(1)));
    let part =
        json!({"name": "self", "tokens": 300, "texts": 5, "conversations": 0, "conversation_tokens": 0});
    assert_eq!(found["parts"], json!([part]));
    // What is written does not depend on how much is wanted.
    let shorter = calibration(&model, &out, "-q n3 --calibration self --calibration-tokens 100");
    assert_ne!(shorter["text_sha256"], found["text_sha256"]);
}

#[test]
fn every_part_of_a_text_says_what_it_gave() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (demo_model(dir.path()), dir.path().join("out.qsf"));
    let jsonl = dir.path().join("chat.jsonl");
    let message = json!({"messages": [{"role": "user", "content": "What grows here?"}]});
    fs::write(&jsonl, format!("{message}\n{}\n", json!({"text": "Trees."}))).unwrap();
    let args = format!("-q 4bit --calibration {} --calibration self --calibration {TEXT}", jsonl.display());
    let output = convert(&model, &out, &format!("{args} --calibration-tokens 900 --json")).run();
    let stderr = output.stderr.clone();
    let found = output.json()["calibration"].clone();
    let parts = found["parts"].as_array().unwrap();
    let numbers = |part: &Value| ["texts", "conversations"].map(|name| part[name].as_u64().unwrap());
    assert_eq!(parts.iter().map(numbers).collect::<Vec<_>>(), [[1, 1], [4, 0], [1, 0]], "{found}");
    let sum: u64 = parts.iter().map(|part| part["tokens"].as_u64().unwrap()).sum();
    assert_eq!(sum, 900);
    assert!(parts[0]["conversation_tokens"].as_u64().unwrap() < parts[0]["tokens"].as_u64().unwrap());
    for says in
        ["chat.jsonl (", "of 1 text, ", "of 1 conversation)", "of text that the model writes (4 texts)"]
    {
        assert!(stderr.contains(says), "{says}: {stderr}");
    }
    let again = convert(&model, &out, "-q 4bit --calibration self --calibration self --force");
    refused("twice", dir.path(), again, 2, &["several times"]);
    let built_in = convert(&model, &out, "--target-size 700kB --calibration-tokens 600 --force").run();
    assert!(built_in.stderr.contains("--calibration self"), "{}", built_in.stderr);
}

#[test]
fn a_model_with_a_chat_template_writes_both_sides_of_conversations() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (demo_model(dir.path()), dir.path().join("out.qsf"));
    let plain = calibration(&model, &out, "-q 8bit --calibration self --calibration-tokens 9000");
    fs::write(model.join("chat_template.jinja"), TEMPLATE).unwrap();
    let found = calibration(&model, &out, "-q 8bit --calibration self --calibration-tokens 9000");
    assert_ne!(found["text_sha256"], plain["text_sha256"]);
    let part = &found["parts"][0];
    assert!(part["conversations"].as_u64().unwrap() >= 16, "{part}");
    // A template that shows nothing of what is said, and a program of strangers where none may run.
    fs::write(model.join("chat_template.jinja"), "{{ messages | length }}").unwrap();
    let note = convert(&model, &out, "-q 8bit --calibration self --calibration-tokens 900 --force").run();
    assert!(note.stderr.contains("no conversations"), "{}", note.stderr);
}

#[test]
fn a_plan_and_a_batch_make_the_bytes_of_the_conversion_itself() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = |name: &str| dir.path().join(name);
    let args =
        format!("--target-size 500kB --calibration self --calibration {TEXT} --calibration-tokens 2000");
    let save = format!("{args} --clusters 8 --dry-run --save-plan {}", file("plan.json").display());
    let json = convert(&model, &file("direct.qsf"), &format!("{save} --json")).run().json();
    assert_eq!(json["calibration"]["tokens"], 2000, "{json}");
    convert(&model, &file("direct.qsf"), &format!("{args} --clusters 8")).run().ok();
    convert(&model, &file("replayed.qsf"), &format!("--plan {}", file("plan.json").display())).run().ok();
    let direct = fs::read(file("direct.qsf")).unwrap();
    assert!(direct == fs::read(file("replayed.qsf")).unwrap(), "other bytes by the plan");
    let plan = fs::read_to_string(file("plan.json")).unwrap();
    let hash = json["calibration"]["text_sha256"].as_str().unwrap();
    fs::write(file("other.json"), plan.replace(hash, &"0".repeat(64))).unwrap();
    let other = convert(&model, &file("other.qsf"), &format!("--plan {}", file("other.json").display()));
    refused("another text", dir.path(), other, 2, &["has written another text"]);
    let job = json!({ "model": "demo-1m", "output": "out.qsf", "target_size": "500kB", "clusters": 8,
        "calibration": ["self", TEXT], "calibration_tokens": 2000 });
    fs::write(file("jobs.jsonl"), format!("{job}\n")).unwrap();
    let batch = |json: &str| {
        fs::write(file("jobs.jsonl"), json).unwrap();
        let call = program("qsf-convert").arg("--batch").arg(file("jobs.jsonl"));
        let output = call.arg("--out-dir").arg(file("out")).arg("--json").run();
        assert_eq!(output.code, 0, "{}", output.stderr);
        serde_json::from_str::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(batch(&format!("{job}\n"))["done"], 1);
    assert!(direct == fs::read(file("out/out.qsf")).unwrap(), "other bytes in a batch");
    assert_eq!(batch(&format!("{job}\n"))["skipped"], 1);
}

#[test]
fn a_text_that_was_being_written_goes_on_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (model, out) = (demo_model(dir.path()), dir.path().join("out.qsf"));
    let args = "-q n4 -t 1 --calibration self --calibration-tokens 9000";
    convert(&model, &out, args).run().ok();
    let whole = fs::read(&out).unwrap();
    fs::remove_file(&out).unwrap();
    let journal = PathBuf::from(format!("{}.text.journal", out.display()));
    let mut child = convert(&model, &out, args).start();
    let started = Instant::now();
    while fs::metadata(&journal).map_or(0, |file| file.len()) < 10_000 {
        assert!(started.elapsed() < Duration::from_secs(120), "nothing was kept");
        assert_eq!(child.try_wait().unwrap(), None, "ended before");
        sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!out.exists());
    let resumed = convert(&model, &out, args).run();
    assert!(resumed.stderr.contains("going on with the text in"), "{}", resumed.stderr);
    assert!(fs::read(&out).unwrap() == whole, "other bytes after a kill");
    assert!(!journal.exists());
    assert_eq!(leftovers(dir.path()), [out]);
}
