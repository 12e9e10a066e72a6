//! `qsf-eval --task`: tasks from their files to their figures, and files that are none.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use serde_json::{Value, json};

struct Place {
    dir: tempfile::TempDir,
    model: PathBuf,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let model = demo_model(dir.path());
        Place { dir, model }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn eval(&self, args: &str) -> Program {
        program("qsf-eval").dir(self.dir.path()).arg(&self.model).args(args)
    }
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| record.to_string() + "\n").collect()
}

/// A record of each task, twice with another answer.
fn records(task: &str) -> Vec<Value> {
    let two = ["It was a dark and stormy night", "The man had seen the house"];
    let record = |(i, text): (usize, &&str)| match task {
        "hellaswag" => json!({"activity_label": "Reading", "ctx_a": text, "ctx_b": "and then",
            "endings": ["he went away.", "qqq zz.", "the door was open.", "x"], "label": i.to_string()}),
        "winogrande" => json!({"sentence": format!("{text} since _ came back to it again."), "option1": "he",
            "option2": "qq", "answer": (i + 1).to_string()}),
        "arc" => json!({"question": text, "choices": {"text": ["he went", "qqq zz", "x"],
            "label": ["A", "B", "C"]}, "answerKey": (["A", "C"][i])}),
        "piqa" => json!({"goal": text, "sol1": "he went", "sol2": "qqq zz", "label": i}),
        "mmlu" => json!({"question": text, "subject": (["old_books", "letters"][i]),
            "choices": ["a", "b", "c", "d"], "answer": i}),
        "truthfulqa_mc" => json!({"question": text,
            "mc1_targets": {"choices": ["he went", "qqq"], "labels": [1, 0]},
            "mc2_targets": {"choices": ["he went", "he ran", "qqq"], "labels": [1, 1, 0]}}),
        _ => json!({"text": format!("{text} and a man")}),
    };
    two.iter().enumerate().map(record).collect()
}

const TASKS: [&str; 7] = ["hellaswag", "winogrande", "arc", "piqa", "mmlu", "truthfulqa_mc", "lambada"];

fn measure<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["measures"].as_array().unwrap().iter().find(|measure| measure["name"] == name).unwrap()
}

#[test]
fn every_task_is_scored_and_a_model_agrees_with_itself() {
    let place = Place::new();
    for task in TASKS {
        place.file("items.jsonl", lines(&records(task)));
        let args = format!(
            "--task {task} --task-file items.jsonl --json --base demo-1m --task-out out.jsonl --force"
        );
        let report = place.eval(&args).run().json();
        assert_eq!((&report["items"], &report["format"]), (&2.into(), &"jsonl".into()), "{report}");
        for measure in report["measures"].as_array().unwrap() {
            assert_eq!(measure["value"], measure["base_value"], "{task}: {measure}");
            assert_eq!(measure["difference"], 0.0, "{task}: {measure}");
        }
        let out = fs::read_to_string(place.dir.path().join("out.jsonl")).unwrap();
        let items: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(items.len(), 2);
        for item in items {
            assert_eq!(item["log_likelihoods"], item["base"]["log_likelihoods"], "{task}");
            assert!(item["log_likelihoods"].as_array().unwrap().iter().all(|ll| ll.as_f64().unwrap() < 0.0));
        }
    }
    // The demo model knows English from noise.
    place.file("items.jsonl", lines(&records("hellaswag")[..1]));
    let report = place.eval("--task hellaswag --task-file items.jsonl --json").run().json();
    assert_eq!(measure(&report, "acc")["value"], 1.0, "{report}");
    assert!(measure(&report, "acc")["stderr"].is_null());
    let text = place.eval("--task mmlu --task-file - --few-shot 1").input(&lines(&records("mmlu"))).run();
    assert_eq!(text.code, 2, "each subject has one item only: {}", text.stderr);
    assert!(text.stderr.contains("old_books"), "{}", text.stderr);
}

#[test]
fn subjects_have_figures_of_their_own_and_examples_are_of_the_subject() {
    let place = Place::new();
    place.file("items.jsonl", lines(&records("mmlu")));
    let examples = [records("mmlu"), records("mmlu")].concat();
    place.file("dev.jsonl", lines(&examples));
    let args = "--task mmlu --task-file items.jsonl --few-shot 2 --few-shot-file dev.jsonl";
    let report = place.eval(args).args("--json").run().json();
    let groups = report["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| &group["name"]).collect::<Vec<_>>(), ["letters", "old_books"]);
    assert_eq!((&report["few_shot"], &report["few_shot_file"]), (&2.into(), &"dev.jsonl".into()));
    let without = place.eval("--task mmlu --task-file items.jsonl --json").run().json();
    assert!(report["tokens"].as_u64() > without["tokens"].as_u64(), "examples stand before the items");
    let text = place.eval(args).run();
    assert!(text.stdout.contains("old_books, 1 items "), "{}", text.stdout);
    let few = place.eval("--task mmlu --task-file items.jsonl --few-shot 3 --few-shot-file dev.jsonl");
    refused("too few examples", place.dir.path(), few, 2, &["--few-shot 3", "old_books"]);
}

#[test]
fn a_budget_a_file_of_the_model_and_a_limit_change_nothing_but_what_they_say() {
    let place = Place::new();
    place.file("items.jsonl", lines(&records("hellaswag")));
    program("qsf-convert").dir(place.dir.path()).args("demo-1m f.qsf -q f16").run().ok();
    let scores = |args: &str| -> Value {
        let call = program("qsf-eval")
            .dir(place.dir.path())
            .args(args)
            .args("--task hellaswag --task-file items.jsonl");
        call.args("--task-out out.jsonl --force -q").run().ok();
        let out = fs::read_to_string(place.dir.path().join("out.jsonl")).unwrap();
        serde_json::from_str(out.lines().next().unwrap()).unwrap()
    };
    let whole = scores("f.qsf");
    assert_eq!(scores("f.qsf --limit 1"), whole);
    assert_eq!(scores("f.qsf --ram-budget 100MB --kv-type f16"), whole);
    assert_eq!(scores("f.qsf -t 1"), whole);
    let cut = program("qsf-eval").dir(place.dir.path());
    let cut = cut.args("f.qsf --task hellaswag --task-file items.jsonl -c 8 --json").run().json();
    assert_eq!((&cut["cut_items"], &cut["ctx"]), (&2.into(), &8.into()), "{cut}");
}

#[test]
fn files_of_llama_cpp_are_read() {
    let place = Place::new();
    let text = "Reading: It was a dark\n0\nand stormy night.\nqq zz q.\nxx\nzq\n";
    place.file("hellaswag.txt", text);
    let report = place.eval("--task hellaswag --task-file hellaswag.txt --json").run().json();
    assert_eq!((&report["format"], &report["items"]), (&"llama.cpp".into(), &1.into()));
    assert_eq!(measure(&report, "acc_norm")["value"], 1.0);
    place.file("w.csv", "0,\"It was a _, and the man went home.\",night,qq,1\n");
    let report = place.eval("--task winogrande --task-file w.csv --json").run().json();
    assert_eq!((&report["format"], &report["items"]), (&"llama.cpp".into(), &1.into()));
    let few = place.eval("--task hellaswag --task-file hellaswag.txt --few-shot 1");
    refused("examples", place.dir.path(), few, 2, &["complete prompts"]);
}

fn parquet_fixture(task: &str, format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/parquet").join(format!("{task}.{format}"))
}

/// Files of pyarrow, and the same records as lines (`scripts/make_parquet.py`).
#[test]
fn parquet_gives_the_figures_of_the_same_records_as_lines() {
    let place = Place::new();
    for task in TASKS {
        let scores = |format: &str| -> (Value, String) {
            let items = parquet_fixture(task, format);
            let call = place.eval(&format!("--task {task} --json --task-out out.jsonl --force --task-file"));
            let report = call.arg(&items).run().json();
            assert_eq!(report["format"], format);
            (report["measures"].clone(), fs::read_to_string(place.dir.path().join("out.jsonl")).unwrap())
        };
        assert_eq!(scores("parquet"), scores("jsonl"), "{task}");
    }
    let few = |format: &str| {
        let items = parquet_fixture("hellaswag", format);
        place.eval("--task hellaswag --few-shot 1 --json --task-file").arg(&items).run().json()["measures"]
            .clone()
    };
    assert_eq!(few("parquet"), few("jsonl"));
    let other = place.eval("--task piqa --task-file").arg(parquet_fixture("mmlu", "parquet"));
    refused("another task's file", place.dir.path(), other, 3, &["mmlu.parquet", "row 1", "goal"]);
}

#[test]
fn files_that_are_no_task_are_refused_by_line_before_anything_is_scored() {
    let place = Place::new();
    let good = lines(&records("hellaswag"));
    let long = format!("{good}{{\"ctx_a\": \"{}\"}}\n", "x".repeat(1 << 20));
    for (name, content, says) in [
        ("parquet", b"PAR1....".to_vec(), &["footer", "a file of 8 bytes"][..]),
        ("gzip", b"\x1f\x8b\x08".to_vec(), &["unpack"]),
        ("empty", Vec::new(), &["empty"]),
        ("list", b"[{}]".to_vec(), &["jq -c"]),
        ("blank", b"{}".to_vec(), &["line 1", "activity_label"]),
        ("second", format!("{good}\n{{\"ctx_a\":1}}\n").into_bytes(), &["line 4", "hellaswag"]),
        ("cut", format!("{good}{{\"ctx_a\"").into_bytes(), &["line 3"]),
        ("long", long.into_bytes(), &["line 3", "1048576"]),
        ("lines", b"a\n1\nb\n".to_vec(), &["line 1", "3 lines"]),
        ("label", b"a\n4\nb\nc\nd\ne\n".to_vec(), &["line 1", "'4'"]),
        ("binary", b"\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(), &["offset 12"]),
        ("utf8", [good.as_bytes(), b"{\"\xff\"}"].concat(), &["UTF-8"]),
    ] {
        place.file("items", content);
        let call = place.eval("--task hellaswag --task-file items --task-out out.jsonl");
        refused(name, place.dir.path(), call, 3, &[&["items"], says].concat());
    }
    let missing = place.eval("--task hellaswag --task-file none.jsonl");
    refused("no file", place.dir.path(), missing, 3, &["none.jsonl"]);
}

#[test]
fn flags_that_do_not_go_with_a_task_are_refused() {
    let place = Place::new();
    place.file("items.jsonl", lines(&records("truthfulqa_mc")));
    place.file("out.jsonl", "mine");
    let task = |more: &str| place.eval(&format!("--task truthfulqa_mc --task-file items.jsonl {more}"));
    for (more, says) in [
        ("--chunks 2", "--chunks"),
        ("--store --base demo-1m", "--store"),
        ("--kv-window 64", "--kv-window"),
        ("--early-exit", "--early-exit"),
        ("--file items.jsonl", "--file"),
        ("--few-shot 2", "examples of its own"),
        ("--few-shot-file items.jsonl", "--few-shot"),
        ("--limit 0", "--limit"),
        ("-c 0", "--ctx-size 0"),
        ("--task-out out.jsonl", "out.jsonl"),
    ] {
        let call = task(more);
        let output = call.run();
        assert_eq!(output.code, 2, "{more}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{more}: {}", output.stderr);
    }
    assert_eq!(fs::read_to_string(place.dir.path().join("out.jsonl")).unwrap(), "mine");
    for (args, says) in [
        ("--task gsm8k --task-file items.jsonl", "hellaswag"),
        ("--task hellaswag", "--task-file"),
        ("--hellaswag -f items.jsonl", "--task hellaswag"),
        ("--tasks hellaswag", "--task NAME"),
    ] {
        refused(args, place.dir.path(), place.eval(args), 2, &[says]);
    }
    assert!(Path::new(&place.model).is_dir());
}
