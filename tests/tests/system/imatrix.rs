//! Importance matrices of llama.cpp: read where no text is at hand, and written for its quantizer.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_runtime::gguf::GgufFile;
use qsf_runtime::source;
use qsf_tests::*;

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

/// An importance matrix of `model`, in both forms.
fn matrices(model: &Path, dir: &Path) -> [PathBuf; 2] {
    let gguf = dir.join("imatrix.gguf");
    let args = format!("--stats-only --calibration {CALIBRATION} --calibration-tokens 2000 --force");
    program("qsf-convert").arg(model).args(&args).arg("--stats-out").arg(&gguf).run().ok();
    let file = GgufFile::open(&gguf).unwrap();
    let floats = |name: &str| {
        let tensor = file.tensors.iter().find(|tensor| tensor.name == name).unwrap();
        let values = file.bytes(tensor).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        values.collect::<Vec<f32>>()
    };
    let names: Vec<&str> =
        file.tensors.iter().filter_map(|tensor| tensor.name.strip_suffix(".in_sum2")).collect();
    let mut old = (names.len() as i32).to_le_bytes().to_vec();
    for name in names {
        let (sums, counts) = (floats(&format!("{name}.in_sum2")), floats(&format!("{name}.counts")));
        old.extend((name.len() as i32).to_le_bytes());
        old.extend(name.as_bytes());
        old.extend(1i32.to_le_bytes());
        old.extend((sums.len() as i32).to_le_bytes());
        sums.iter().for_each(|sum| old.extend((sum / counts[0]).to_le_bytes()));
    }
    let dat = dir.join("imatrix.dat");
    fs::write(&dat, old).unwrap();
    [gguf, dat]
}

fn values(path: &Path) -> Vec<Vec<f32>> {
    let model = source::open(path).unwrap();
    model.tensors().iter().map(|info| model.load(info.id).unwrap().to_f32()).collect()
}

#[test]
fn an_importance_matrix_makes_files_better_in_both_forms_and_formats() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let [gguf, dat] = matrices(&model, dir.path());
    for (end, quant) in [("qsf", "2bit"), ("gguf", "Q2_K")] {
        let kld = |name: &str, imatrix: Option<&Path>| {
            let out = dir.path().join(format!("{name}.{end}"));
            let args = format!("--quant {quant} --eval {TEXT} --eval-chunks 4 --json");
            let mut call = convert(&model, &out, &args);
            if let Some(path) = imatrix {
                call = call.arg("--imatrix").arg(path);
            }
            (call.run().json()["evaluation"]["kld"]["mean"].as_f64().unwrap(), values(&out))
        };
        let (without, _) = kld("without", None);
        let (with, of_gguf) = kld("with", Some(&gguf));
        let (_, of_dat) = kld("old", Some(&dat));
        assert!(with < without, "{quant}: {with} of {without}");
        assert!(of_gguf == of_dat, "{quant}: the two forms say the same");
    }
}

#[test]
fn what_is_of_another_model_or_does_not_go_together_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (model, other) = (demo_model(dir.path()), small_model(dir.path()));
    let [gguf, dat] = matrices(&other, dir.path());
    let out = dir.path().join("out.qsf");
    for path in [&gguf, &dat] {
        let refused = convert(&model, &out, "--quant 3bit").arg("--imatrix").arg(path).run();
        assert_eq!(refused.code, 3, "{}", refused.stderr);
        for says in ["blk.0.", "64", "another model"] {
            assert!(refused.stderr.contains(says), "{says}: {}", refused.stderr);
        }
    }
    let [own, _] = matrices(&model, dir.path());
    for args in [format!("--calibration {CALIBRATION}"), "--target-size 500kB".into()] {
        let refused = convert(&model, &out, &args).arg("--imatrix").arg(&own).run();
        assert_eq!(refused.code, 2, "{}", refused.stderr);
    }
    let no_matrix = convert(&model, &out, "").arg("--imatrix").arg(model.join("config.json")).run();
    assert!(no_matrix.code == 3 && no_matrix.stderr.contains("importance matrix"), "{}", no_matrix.stderr);
    let cut = dir.path().join("cut.dat");
    fs::write(&cut, &fs::read(&dat).unwrap()[..5000]).unwrap();
    assert_eq!(convert(&model, &out, "").arg("--imatrix").arg(&cut).run().code, 3);
    assert!(!out.exists());
}

#[test]
fn a_plan_holds_its_importance_matrix_and_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let [gguf, _] = matrices(&model, dir.path());
    let (first, again, plan) =
        (dir.path().join("a.qsf"), dir.path().join("b.qsf"), dir.path().join("plan.json"));
    convert(&model, &first, "--quant 3bit")
        .arg("--imatrix")
        .arg(&gguf)
        .arg("--save-plan")
        .arg(&plan)
        .run()
        .ok();
    convert(&model, &again, "").arg("--plan").arg(&plan).run().ok();
    assert!(fs::read(&first).unwrap() == fs::read(&again).unwrap());
    let mut bytes = fs::read(&gguf).unwrap();
    let end = bytes.len() - 40;
    bytes[end] ^= 1;
    fs::write(&gguf, bytes).unwrap();
    let refused = convert(&model, &dir.path().join("c.qsf"), "").arg("--plan").arg(&plan).run();
    assert!(refused.code != 0, "another importance matrix under the same name");
}
