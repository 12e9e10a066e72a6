//! Weights stored apart from the blocks: taken where they pay, the same bytes everywhere, and nowhere forgotten.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use serde_json::Value;

fn call(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

fn divergence(file: &Path, model: &Path, args: &str) -> f64 {
    let call = program("qsf-eval").arg(file).arg("--base").arg(model).arg("--file").arg(TEXT);
    call.args("--ctx 256 --chunks 8 --json").args(args).run().json()["kld"]["mean"].as_f64().unwrap()
}

/// Outliers of all tensors.
fn outliers(file: &Path) -> Vec<u64> {
    let tensors = program("qsf-inspect").arg(file).args("--tensors --json --verify").run().json();
    tensors["tensors"].as_array().unwrap().iter().map(|t| t["outliers"].as_u64().unwrap()).collect()
}

/// The model with a thousandth of the weights of some matrices far larger.
fn planted(model: PathBuf) -> PathBuf {
    let mut weights = SafetensorsFile::of_model(&model);
    let names: Vec<String> = weights.names().map(str::to_owned).collect();
    for name in names.iter().filter(|name| name.contains("mlp") || name.contains("o_proj")) {
        weights.enlarge(name, 997);
    }
    weights.save();
    model
}

#[test]
fn planted_outliers_are_found_and_the_file_is_better_than_without_at_the_same_size() {
    let dir = tempfile::tempdir().unwrap();
    let model = planted(demo_model(dir.path()));
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 2048 --target-size 420kB");
    let (with, without) = (dir.path().join("with.qsf"), dir.path().join("without.qsf"));
    let plan = dir.path().join("plan.json");
    call(&model, &with, &format!("{text} --save-plan {}", plan.display())).run().ok();
    call(&model, &without, &format!("{text} --outliers off")).run().ok();
    assert!(fs::metadata(&with).unwrap().len() <= 420_000);
    let (found, none) = (outliers(&with), outliers(&without));
    assert!(found.iter().sum::<u64>() > 300 && none.iter().all(|count| *count == 0), "{found:?} {none:?}");
    let (better, worse) = (divergence(&with, &model, ""), divergence(&without, &model, ""));
    assert!(better < 0.7 * worse, "KLD {better} with outliers apart, {worse} without");

    // The plan says so, and replayed gives as many.
    assert!(fs::read_to_string(&plan).unwrap().contains('%'));
    let again = dir.path().join("again.qsf");
    let replay = format!("--plan {}", plan.display());
    call(&model, &again, &replay).run().ok();
    assert_eq!(outliers(&again), found);
    // As a source they are part of the weights: 8 bits of everything change little.
    let requantized = dir.path().join("requantized.qsf");
    call(&with, &requantized, "-q 8bit --allow-requantize").run().ok();
    let moved = divergence(&requantized, &with, "");
    assert!(moved < 0.1 * better, "KLD {moved} from the file that it was made of");
}

#[test]
fn outliers_are_the_same_bytes_on_every_instruction_set_and_count_on_every_path() {
    let dir = tempfile::tempdir().unwrap();
    let model = planted(demo_model(dir.path()));
    let file = |name: &str| dir.path().join(name);
    let small = planted(small_model(dir.path()));
    let args = format!("-q n3 --outliers 0.5% --calibration {CALIBRATION} --calibration-tokens 1500");
    for args in ["-q 2bit --outliers 0.25%", &args] {
        let first = file("first.qsf");
        call(&small, &first, args).args("-f").run().ok();
        call(&small, &file("second.qsf"), args).args("-f -t 1").env("QSF_CPU", "scalar").run().ok();
        assert!(fs::read(&first).unwrap() == fs::read(file("second.qsf")).unwrap(), "{args}: other bytes");
        assert!(outliers(&first).iter().sum::<u64>() > 50, "{args}");
        call(&model, &first, args).args("-f").run().ok();
        let count: u64 = outliers(&first).iter().sum();
        assert!(count > 400, "{args}: {count}");
        let plain = args.split(" --outliers").next().unwrap();
        call(&model, &file("plain.qsf"), plain).args("-f").run().ok();
        let without = divergence(&file("plain.qsf"), &model, "");
        for path in ["", "--activations f32"] {
            let with = divergence(&first, &model, path);
            assert!(with < 0.95 * without, "{args} {path}: KLD {with}, {without} without");
        }
    }
    let shown = call(&model, &file("first.qsf"), "-q 4bit -f --outliers 0.1% --json").run().json();
    let tensors: &Vec<Value> = shown["tensors"].as_array().unwrap();
    assert!(tensors.iter().any(|t| t["outliers"].as_u64() > Some(10)), "{tensors:?}");
    let call = call(&model, &file("no.qsf"), "--outliers auto");
    refused("no target", dir.path(), call, 2, &["--outliers auto", "--target-size"]);
}
