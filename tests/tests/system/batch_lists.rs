//! Lists of jobs with a mistake are refused with its place, before anything is done.

use std::fs;
use std::path::Path;

use qsf_tests::*;

use crate::batch::Place;

/// What is mistaken, the second line of a list, and what the message says of it.
const MISTAKES: [(&str, &str, &str); 15] = [
    (
        "unknown key",
        r#"{"model": "m", "output": "a.qsf", "qant": "4bit"}"#,
        "key \"qant\": is no option of a conversion; did you mean \"quant\"?",
    ),
    (
        "same output",
        r#"{"model": "m", "output": "./good.qsf"}"#,
        "key \"output\": 'good.qsf' is the output of line 1 already",
    ),
    (
        "wrong type",
        r#"{"model": "m", "output": "a.qsf", "force": "yes"}"#,
        "key \"force\": expected true or false, found a text",
    ),
    ("wrong type", r#"{"model": 5, "output": "a.qsf"}"#, "key \"model\": expected a text, found a number"),
    (
        "wrong value",
        r#"{"model": "m", "output": "a.qsf", "block_size": 48}"#,
        "key \"block_size\": invalid value '48'",
    ),
    (
        "wrong value",
        r#"{"model": "m", "output": "a.qsf", "eval_text": 3}"#,
        "key \"eval_text\": expected the name of a file, found a number",
    ),
    ("no output", r#"{"model": "m"}"#, "key \"output\": every job needs this key"),
    (
        "outside",
        r#"{"model": "m", "output": "../a.qsf"}"#,
        "key \"output\": '../a.qsf' leads out of --out-dir",
    ),
    ("limit without text", r#"{"model": "m", "output": "a.qsf", "max_kld": 0.1}"#, "required"),
    (
        "conflict",
        r#"{"model": "m", "output": "a.qsf", "quant": "4bit", "target_size": "1MB"}"#,
        "cannot be used with",
    ),
    (
        "twice",
        r#"{"model": "m", "output": "a.qsf", "quant": "4bit", "quant_type": "3bit"}"#,
        "key \"quant_type\": says the same as \"quant\"",
    ),
    (
        "not for jobs",
        r#"{"model": "m", "output": "a.qsf", "dry_run": true}"#,
        "key \"dry_run\": makes no file",
    ),
    (
        "of the batch",
        r#"{"model": "m", "output": "a.qsf", "jobs": 3}"#,
        "key \"jobs\": is an option of the batch",
    ),
    (
        "a list",
        r#"{"model": "m", "output": "a.qsf", "quant": ["4bit"]}"#,
        "key \"quant\": expected a text or a number, found a list",
    ),
    ("no JSON", r#"{"model": "m", "output": }"#, "expected one JSON object"),
];

#[test]
fn a_mistaken_list_is_refused_with_line_and_key_before_anything_is_done() {
    let place = Place::new();
    write_llama(&place.path("m"), Size::TINY, 1);
    let good = r#"{"model": "m", "output": "good.qsf"}"#;
    for (what, second, says) in MISTAKES {
        fs::write(place.path("jobs.jsonl"), format!("{good}\n{second}\n")).unwrap();
        refused(what, place.0.path(), place.batch(""), 2, &["jobs.jsonl: line 2", says]);
    }
    // All mistakes at once, and in TOML the line of the key itself.
    let toml = "[[job]]\nmodel = 'm'\noutput = 'a.qsf'\nqant = '4bit'\n\n[[job]]\nmodel = 5\noutput = 'b'\n";
    fs::write(place.path("jobs.toml"), toml).unwrap();
    let call = program("qsf-convert").arg("--batch").arg(place.path("jobs.toml")).args("--out-dir out");
    refused(
        "TOML",
        place.0.path(),
        call,
        2,
        &["line 4, key \"qant\"", "line 7, key \"model\"", "line 8, key \"output\""],
    );
    // A file that this batch has not made.
    fs::write(place.path("jobs.jsonl"), format!("\n{good}\n")).unwrap();
    fs::create_dir(place.path("out")).unwrap();
    fs::write(place.path("out/good.qsf"), "precious").unwrap();
    refused("foreign", place.0.path(), place.batch(""), 2, &["line 2, key \"output\"", "good.qsf exists"]);
    refused("options", place.0.path(), place.batch("--quant 3bit"), 2, &["--quant"]);
}

/// What a job needs is created and removed by path: a folder that is not there is no panic.
#[test]
fn a_list_that_is_not_there_or_is_no_list_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let call = |list: &Path| program("qsf-convert").arg("--batch").arg(list).args("--out-dir out");
    refused("missing", dir.path(), call(&dir.path().join("no.jsonl")), 3, &["no.jsonl"]);
    for (name, text, says) in
        [("a.txt", "", ".jsonl or .toml"), ("a.jsonl", "", "no jobs"), ("a.toml", "x = 1", "[[job]]")]
    {
        fs::write(dir.path().join(name), text).unwrap();
        refused(name, dir.path(), call(&dir.path().join(name)), 2, &[name, says]);
    }
    let list = dir.path().join("a.jsonl");
    refused("no folder", dir.path(), program("qsf-convert").arg("--batch").arg(&list), 2, &["--out-dir"]);
}
