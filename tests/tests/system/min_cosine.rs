//! `--min-cosine`: no matrix is further from the original than was allowed, and a size is kept all the same.

use std::fs;
use std::path::Path;

use qsf_tests::*;
use serde_json::Value;

fn call(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

/// The matrices of a report: name, type, type before, cosine.
fn matrices(report: &Value) -> Vec<(String, String, Option<String>, f64)> {
    let all = report["tensors"].as_array().unwrap().iter().filter(|t| t["rows"].as_u64() > Some(1));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    all.map(|t| {
        let (kind, quant) = (text(&t["kind"]).unwrap(), text(&t["type"]).unwrap());
        (kind, quant, text(&t["promoted_from"]), t["cosine"].as_f64().unwrap())
    })
    .collect()
}

#[test]
fn a_matrix_below_the_cosine_goes_on_to_larger_types_and_the_report_says_from_which() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 1500");
    let plain = matrices(&call(&model, &out, "-q n2 --json").run().json());
    // Between the worst and the best of n2, so that some stay and some do not.
    let worst = plain.iter().map(|m| m.3).fold(1.0, f64::min);
    let best = plain.iter().map(|m| m.3).fold(0.0, f64::max);
    let middle = (worst + best) / 2.0;
    for args in [format!("-q n2 --min-cosine {middle}"), format!("-q n2 --min-cosine 0.985 {text}")] {
        let report = call(&model, &out, &format!("{args} --json -f")).run().json();
        let wanted: f64 = args.split_whitespace().nth(3).unwrap().parse().unwrap();
        let found = matrices(&report);
        assert!(found.iter().all(|m| m.3 >= wanted), "{args}: {found:?}");
        let (moved, kept): (Vec<_>, Vec<_>) = found.iter().partition(|m| m.1 != "n2");
        assert!(moved.iter().all(|m| m.2.as_deref() == Some("n2")), "{args}: {moved:?}");
        assert!(kept.iter().all(|m| m.2.is_none()) && !moved.is_empty(), "{args}: {found:?}");
        if wanted == middle {
            assert!(!kept.is_empty() && moved.iter().all(|m| m.1 == "x3"), "{found:?}");
        }
        // What is in the file is what was reported.
        program("qsf-inspect").arg(&out).args("--verify").run().ok();
    }
    for wrong in ["1", "-0.5", "nan", "high"] {
        let call = call(&model, &dir.path().join("no.qsf"), &format!("--min-cosine={wrong}"));
        refused(wrong, dir.path(), call, 2, &["--min-cosine", "0.99"]);
    }
}

#[test]
fn with_a_target_only_types_above_the_cosine_are_chosen_and_what_cannot_be_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 1500");
    let args = format!("--target-size 620kB --min-cosine 0.985 {text} --json");
    let found = matrices(&call(&model, &out, &args).run().json());
    assert!(found.iter().all(|m| m.3 >= 0.985), "{found:?}");
    assert!(fs::metadata(&out).unwrap().len() <= 620_000);
    for (size, cosine, part) in [("500kB", "0.999", "smallest"), ("9MB", "0.9999999", "at best")] {
        let args = format!("--target-size {size} --min-cosine {cosine} {text}");
        let found = call(&model, &dir.path().join("no.qsf"), &args).run();
        assert!(found.code == 2 && found.stderr.contains(part), "{} {}", found.code, found.stderr);
        assert!(found.stderr.contains("--min-cosine"), "{}", found.stderr);
        assert!(!dir.path().join("no.qsf").exists());
        let _ = fs::remove_file(dir.path().join("no.qsf.journal"));
    }
}
