//! What `qsf-run` says of speed: that it measures what it names, and that programs can rely on the form.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use serde_json::Value;

/// A random LLaMA of the script for measurements, and its dimensions.
fn random_model(dir: &Path) -> PathBuf {
    let model = dir.join("random");
    let shape = "--layers 2 --hidden 128 --ffn 192 --heads 4 --kv-heads 2 --vocab 96 --positions 128";
    let output = script("make_random_llama.py").arg(&model).args(shape).run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    model
}

/// Weights of all matrices that a token is multiplied with.
const WEIGHTS: u64 = 2 * (2 * 128 * 128 + 2 * 64 * 128 + 3 * 192 * 128) + 96 * 128;

fn demo_file(dir: &Path) -> PathBuf {
    let out = dir.join("demo.qsf");
    program("qsf-convert").arg(demo_model(dir)).arg(&out).args("--quant 4bit").run().ok();
    out
}

#[track_caller]
fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {value:#}"))
}

#[track_caller]
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("{value:#}")).keys().map(String::as_str).collect()
}

/// Holds a row of the report to what docs/performance.md says of it.
fn check_row(report: &Value, row: &Value) {
    assert_eq!(
        keys(row),
        [
            "bandwidth_share",
            "breakdown",
            "depth",
            "disk_bytes_per_token",
            "gb_per_second",
            "kind",
            "matrices",
            "name",
            "sampling_ms_per_token",
            "sequences",
            "threads",
            "tokens",
            "tokens_per_second"
        ]
    );
    let samples = row["tokens_per_second"]["samples"].as_array().unwrap();
    let (a, b) = (samples[0].as_f64().unwrap(), samples[1].as_f64().unwrap());
    let mean = number(row, "/tokens_per_second/mean");
    assert!(samples.len() == 2 && (mean - (a + b) / 2.0).abs() <= 1e-9 * a, "{row:#}");
    let stddev = number(row, "/tokens_per_second/stddev");
    assert!((stddev - (a - b).abs() / 2_f64.sqrt()).abs() <= 1e-9 * a, "{row:#}");
    let parts = ["matmul", "attention", "elementwise", "head", "other"];
    assert_eq!(row["breakdown"].as_object().unwrap().len(), parts.len());
    let all: f64 = parts.iter().map(|part| number(row, &format!("/breakdown/{part}/percent"))).sum();
    assert!((all - 100.0).abs() < 0.1, "parts of {all} %: {row:#}");
    let matrices = row["matrices"].as_array().unwrap();
    let of_matrices: f64 = matrices.iter().map(|share| number(share, "/ms_per_token")).sum();
    let of_parts =
        number(row, "/breakdown/matmul/ms_per_token") + number(row, "/breakdown/head/ms_per_token");
    assert!(of_matrices > 0.0 && of_matrices <= of_parts, "{of_matrices} of {of_parts} ms: {row:#}");
    if row["kind"] == "decode" {
        let read = |share: &Value| {
            number(share, "/gb_per_second") * number(share, "/ms_per_token") * number(row, "/sequences") * 1e6
        };
        let bytes = matrices.iter().map(read).sum::<f64>() / number(report, "/weight_bytes_per_token");
        // What is computed from rates is rounded.
        assert!((0.9..1.0 + 1e-9).contains(&bytes), "matrices of {bytes} of all bytes: {row:#}");
    }
    if row["kind"] == "decode" {
        let bytes = number(report, "/weight_bytes_per_token");
        let rate = number(row, "/gb_per_second");
        // All sequences of a step read weights once.
        let steps = number(row, "/tokens_per_second/mean") / number(row, "/sequences");
        assert!((rate / (steps * bytes / 1e9) - 1.0).abs() < 1e-9);
        let threads = row["threads"].as_u64().unwrap();
        let all = number(report, &format!("/bandwidth/{}/gb_per_second", threads - 1));
        assert!((number(row, "/bandwidth_share") * all / rate - 1.0).abs() < 1e-9, "{row:#}");
        assert!(number(row, "/sampling_ms_per_token") > 0.0);
    } else {
        assert_eq!(row["kind"], "prompt");
        assert!(row["gb_per_second"].is_null() && row["bandwidth_share"].is_null(), "{row:#}");
    }
}

#[test]
fn the_report_of_a_bench_has_the_fields_that_the_documentation_promises() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_file(dir.path());
    let call = program("qsf-run")
        .arg(&model)
        .args("--bench --pp 16,24 --tg 4 -d 0,8 --sequences 1,3 -r 2 -t 1,2 -o json");
    let report = call.run().json();
    assert_eq!(
        keys(&report),
        [
            "activations",
            "bandwidth",
            "cold_load",
            "device",
            "document",
            "head",
            "huge_page_bytes",
            "isa",
            "kv_type",
            "layer_selection",
            "load_seconds",
            "lora",
            "model",
            "rows",
            "schema",
            "streaming",
            "version",
            "weight_bytes_per_token"
        ]
    );
    // The second is fastest where the processor has it.
    let activations = report["activations"].as_str().unwrap();
    assert!(["int8", "int8-128"].contains(&activations), "{activations}");
    assert_eq!(report["model"], "demo.qsf");
    assert!(number(&report, "/load_seconds") > 0.0);
    assert!(report["cold_load"].is_null() && report["head"].is_null(), "{report:#}");
    let bandwidth = report["bandwidth"].as_array().unwrap();
    assert_eq!(bandwidth.len(), 2);
    for (b, threads) in bandwidth.iter().zip(1..) {
        let both = ["gb_per_second_before", "gb_per_second_after"];
        assert_eq!(keys(b), ["buffer_bytes", "gb_per_second", both[1], both[0], "threads"]);
        let larger = both.map(|at| b[at].as_f64().unwrap()).into_iter().fold(0.0, f64::max);
        assert_eq!((&b["threads"], b["gb_per_second"].as_f64()), (&threads.into(), Some(larger)));
    }
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<_> =
        rows.iter().map(|row| (row["threads"].as_u64().unwrap(), row["name"].as_str().unwrap())).collect();
    let tests = ["pp16", "pp24", "tg4", "tg4 x 3", "pp16 @ d8", "pp24 @ d8", "tg4 @ d8", "tg4 x 3 @ d8"];
    let expected: Vec<_> = [1, 2].iter().flat_map(|&threads| tests.map(|test| (threads, test))).collect();
    assert_eq!(names, expected);
    for row in rows {
        check_row(&report, row);
    }
    let call = program("qsf-run").arg(&model).args("--bench --sequences 2 --ram-budget 100MB");
    assert!(call.run().stderr.contains("--sequences"), "a budget has no room for several sequences");
    let many = program("qsf-run").arg(&model).args("--bench --sequences 1,10000000");
    refused("ten million sequences", dir.path(), many, 2, &["--sequences", "10000000", "4096"]);
    // Fewer can be too many for the memory, which is found before it is taken.
    #[cfg(target_os = "linux")]
    {
        let many =
            program("qsf-run").arg(&model).args("--bench --pp 0 --tg 8 -d 400 -r 1 -t 1 --sequences 4096");
        let many = many.through_shell("ulimit -v 1500000; exec \"$@\"");
        refused("memory", dir.path(), many, 5, &["4096 sequences of 408 tokens"]);
    }
    // The older way to ask for it.
    let report = program("qsf-run").arg(&model).args("--bench --pp 16 --tg 0 -r 1 --json").run().json();
    assert_eq!(report["rows"].as_array().unwrap().len(), 1, "0 tokens are not measured");
    assert_eq!(report["bandwidth"], Value::Array(Vec::new()), "nothing to compare with it");
}

#[test]
fn every_form_of_a_bench_has_a_line_for_each_test() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_file(dir.path());
    let form = |args: &str| program("qsf-run").arg(&model).args("--bench -r 1").args(args).run().ok().stdout;
    let csv = form("--pp 8 --tg 2 -o csv");
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [19, 19, 19], "{csv}");
    assert!(csv.starts_with("model,isa,test,threads,"), "{csv}");
    let md = form("--pp 8,9 --tg 0 -o md");
    let lines: Vec<&str> = md.lines().collect();
    assert!(lines[0].starts_with("| test | threads | tokens/s |") && lines[1].starts_with("|---|"), "{md}");
    assert!(lines[2].starts_with("| pp8 | ") && lines[3].starts_with("| pp9 | ") && lines.len() == 4, "{md}");
    let table = form("--pp 8,9 --tg 0");
    assert!(table.contains("\npp8 ") && table.contains("\npp9 ") && !table.contains("matmul"), "{table}");
    let table = form("--pp 8 --tg 0 --verbose");
    assert!(table.contains("matmul") && table.contains("attention"), "{table}");
}

#[test]
fn kernels_are_measured_without_a_model() {
    let report = program("qsf-run").args("--kernel bit/1/cache -t 1,2 -o json").run().json();
    assert_eq!(keys(&report), ["clock_ghz", "document", "isa", "rows", "schema", "version"]);
    assert!(number(&report, "/clock_ghz") > 0.1);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 10, "2bit, 3bit, 4bit, 6bit and 8bit on 1 and 2 threads: {report:#}");
    let fields = [
        "activations",
        "cols",
        "gb_per_second",
        "gweights_per_second",
        "kernel",
        "rows",
        "seconds",
        "threads",
        "tokens",
        "type",
        "weight_bytes",
        "weights_in",
        "weights_per_cycle_and_core",
    ];
    for row in rows {
        assert_eq!(keys(row), fields);
        assert_eq!((&row["tokens"], &row["weights_in"]), (&1.into(), &"cache".into()));
        assert!(number(row, "/gweights_per_second") > 0.0);
    }
    let csv = program("qsf-run").args("--kernel f16/1/cache -t 1 -o csv").run().ok().stdout;
    assert!(csv.lines().nth(1).is_some_and(|line| line.contains(",f16,")), "{csv}");
    let md = program("qsf-run").args("--kernel f16/1/cache -t 1 -o md").run().ok().stdout;
    assert!(md.lines().nth(2).is_some_and(|line| line.starts_with("| f16/1/cache | ")), "{md}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_cold_load_is_compared_with_reading_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_file(dir.path());
    let call = program("qsf-run").arg(&model).args("--bench --cold --pp 8 --tg 0 -r 2 -o json");
    let cold = &call.run().json()["cold_load"];
    let fields = [
        "decode_step_seconds",
        "disk_bytes",
        "file_bytes",
        "first_token_seconds",
        "ratio",
        "read_and_check_seconds",
    ];
    assert_eq!(keys(cold), fields);
    assert_eq!(cold["file_bytes"], fs::metadata(&model).unwrap().len());
    let rest = number(cold, "/first_token_seconds") - number(cold, "/decode_step_seconds");
    assert!(
        (number(cold, "/ratio") * number(cold, "/read_and_check_seconds") - rest).abs() < 1e-9,
        "{cold:#}"
    );
}

#[test]
fn the_random_model_converts_runs_and_has_the_weights_that_its_shape_promises() {
    let dir = tempfile::tempdir().unwrap();
    let model = random_model(dir.path());
    let out = dir.path().join("random.qsf");
    program("qsf-convert").arg(&model).arg(&out).args("--quant 4bit").run().ok();
    let bench = |path: &Path| {
        program("qsf-run").arg(path).args("--bench --pp 100 --tg 2 -d 20 -r 1 -t 1 -o json").run().json()
    };
    assert_eq!(bench(&out)["weight_bytes_per_token"], WEIGHTS * 36 / 64);
    assert_eq!(bench(&model)["weight_bytes_per_token"], WEIGHTS * 2);
    // Through random layers, activations neither die nor explode: tokens are told apart.
    let generate = |ids: &str| {
        program("qsf-run").arg(&out).args("-n 8 --temp 0 --json --prompt-ids").arg(ids).run().json()["token_ids"]
            .clone()
    };
    assert_ne!(generate("1,2,3"), generate("3,2,1"));
}

#[test]
fn the_random_model_as_gguf_computes_what_its_directory_does() {
    let dir = tempfile::tempdir().unwrap();
    let (hf, gguf) = (dir.path().join("hf"), dir.path().join("model.gguf"));
    let shape = "--layers 2 --hidden 128 --ffn 192 --heads 4 --kv-heads 2 --vocab 96 --positions 64 --seed 7";
    let call = script("make_random_llama.py");
    assert_eq!(call.arg(&hf).arg("--gguf").arg(&gguf).args(shape).run().code, 0);
    let generate = |path: &Path| {
        let call = program("qsf-run").arg(path).args("--prompt-ids 5,7,11 -n 20 --temp 0 --json");
        call.run().json()["token_ids"].clone()
    };
    assert_eq!(generate(&gguf), generate(&hf));
    let again = dir.path().join("again");
    script("make_random_llama.py").arg(&again).args(shape).run();
    let weights = |dir: &Path| fs::read(dir.join("model.safetensors")).unwrap();
    assert!(weights(&again) == weights(&hf), "the same seed gave other weights");
}

/// Stands in for llama-bench: a prompt at 100 tokens/s, decoding at 10.
#[cfg(unix)]
const PEER: &str = r#"#!/bin/sh
row() { printf '{"build_number": 1, "build_commit": "abc", "n_prompt": %s, "n_gen": %s, "n_depth": 0, "n_threads": 1, "avg_ts": %s}' "$@"; }
case "$*" in *"-ngl 0"*) ;; *) exit 9 ;; esac
printf '[%s,%s]\n' "$(row 8 0 100.0)" "$(row 0 2 10.0)"
"#;

#[cfg(unix)]
#[test]
fn the_comparison_with_llama_bench_divides_the_same_tests() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let model = demo_file(dir.path());
    let peer = dir.path().join("llama-bench");
    fs::write(&peer, PEER).unwrap();
    fs::set_permissions(&peer, fs::Permissions::from_mode(0o755)).unwrap();
    let found = dir.path().join("found.json");
    let call = script("bench_llama_cpp");
    let call = call.arg("--qsf-run").arg(program_path("qsf-run")).arg("--llama-bench").arg(&peer);
    let pair = format!("{}={}", model.display(), model.display());
    // Other tests run beside this one.
    let call = call.args("--allow-busy --ik-llama-bench").arg(&peer);
    let output = call.args("-t 1 --pp 8 --tg 2 --rounds 2 -r 1 --json").arg(&found).arg(pair).run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    let summary: Value = serde_json::from_str(&fs::read_to_string(found).unwrap()).unwrap();
    let rows = summary["rows"].as_array().unwrap();
    let expected = [("pp8", "llama.cpp", 100.0), ("pp8", "ik_llama.cpp", 100.0)]
        .into_iter()
        .chain([("tg2", "llama.cpp", 10.0), ("tg2", "ik_llama.cpp", 10.0)]);
    for (row, (test, peer, speed)) in rows.iter().zip(expected) {
        assert_eq!((&row["test"], number(row, "/peer_tokens_per_second")), (&test.into(), speed));
        assert_eq!(row["peer"], peer);
        assert!((number(row, "/ratio") * speed / number(row, "/qsf_tokens_per_second") - 1.0).abs() < 1e-9);
        assert!(output.stdout.contains(&format!("| {test} | 1 |")), "{}", output.stdout);
    }
    assert_eq!(rows.len(), 4);
    let refused = script("bench_llama_cpp").args("--qsf-run a --llama-bench b none.qsf").run();
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}
