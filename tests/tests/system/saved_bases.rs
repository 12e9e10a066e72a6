//! `qsf-eval --save-base`: one pass of a base judges many models, and says what a base that runs beside them says.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_runtime::eval::SavedBase;
use qsf_tests::mutate::Dice;
use qsf_tests::*;

/// Chunks that are few, of a size that no program has by default.
const CHUNKS: &str = "-c 160 --chunks 4";

fn evaluation(dir: &Path, model: &Path, more: &str) -> Program {
    program("qsf-eval").dir(dir).arg(model).arg("--file").arg(TEXT).args(more)
}

/// The demo's model, two files of it, and what was saved of it.
fn saved(dir: &Path) -> (PathBuf, [PathBuf; 2]) {
    let model = demo_model(dir);
    let files = ["8bit", "2bit"].map(|quant| {
        let file = dir.join(format!("{quant}.qsf"));
        program("qsf-convert").arg(&model).arg(&file).args(&format!("-q {quant}")).run().ok();
        file
    });
    let said = evaluation(dir, &model, &format!("{CHUNKS} --save-base base.lp --json")).run().json();
    assert_eq!(said["saved_base"]["file_bytes"], fs::metadata(dir.join("base.lp")).unwrap().len());
    (model, files)
}

#[test]
fn a_saved_base_gives_the_figures_of_one_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (model, files) = saved(dir.path());
    for file in &files {
        let of = |base: &Path| {
            let call = evaluation(dir.path(), file, &format!("{CHUNKS} --json")).arg("--base").arg(base);
            call.run().json()
        };
        let (live, saved) = (of(&model), of(Path::new("base.lp")));
        for (name, most) in [("/kld/mean", 1e-6_f64), ("/kld/p99", 1e-4), ("/kld/max", 1e-3)] {
            let [live, saved] = [&live, &saved].map(|found| found.pointer(name).unwrap().as_f64().unwrap());
            assert!(
                (live - saved).abs() < f64::min(most, 1e-3 * live),
                "{name}: {saved}, and {live} beside the base"
            );
        }
        for exact in ["ppl", "base_ppl", "top1", "delta_p", "base", "tokens"] {
            assert_eq!(live[exact], saved[exact], "{exact}");
        }
    }
    // The base has no distance from itself.
    let itself = evaluation(dir.path(), &model, &format!("{CHUNKS} --base base.lp --json")).run().json();
    assert!(itself["kld"]["mean"].as_f64().unwrap() < 1e-6, "{itself}");
    assert_eq!(itself["top1"], 100.0);
}

#[test]
fn parts_and_fewer_chunks_take_their_share_of_a_saved_base() {
    let dir = tempfile::tempdir().unwrap();
    let (_, [file, _]) = saved(dir.path());
    let whole = evaluation(dir.path(), &file, &format!("{CHUNKS} --base base.lp --json")).run().json();
    for i in 1..=2 {
        let more = format!("{CHUNKS} --base base.lp --part {i}/2 --part-out {i}.part");
        evaluation(dir.path(), &file, &more).run().ok();
    }
    let joined = program("qsf-eval").dir(dir.path()).args("--join 2.part 1.part --json").run().json();
    assert_eq!((&joined["kld"], &joined["base"]), (&whole["kld"], &whole["base"]));
    let fewer = "-c 160 --chunks 2 --base base.lp --json";
    assert_eq!(evaluation(dir.path(), &file, fewer).run().json()["chunks"], 2);
}

#[test]
fn what_a_saved_base_is_not_of_is_refused_with_what_to_pass() {
    let dir = tempfile::tempdir().unwrap();
    let (model, [file, _]) = saved(dir.path());
    let text = fs::read_to_string(TEXT).unwrap();
    fs::write(dir.path().join("other.txt"), format!("Once more: {text}")).unwrap();
    let call = |more: &str| evaluation(dir.path(), &file, more);
    let base = "--base base.lp";
    refused("other chunks", dir.path(), call(&format!("-c 128 {base}")), 3, &["base.lp", "--ctx-size 160"]);
    refused("more chunks", dir.path(), call(&format!("-c 160 {base}")), 3, &["base.lp", "--chunks 4"]);
    let other = program("qsf-eval").arg(&file).args("-f other.txt").args(CHUNKS).args(base);
    refused("another text", dir.path(), other, 3, &["base.lp", "chunk 0", "another text"]);
    let again = evaluation(dir.path(), &model, &format!("{CHUNKS} --save-base base.lp"));
    refused("a file that is there", dir.path(), again, 2, &["base.lp", "--force"]);
    let quantized = call(&format!("{CHUNKS} --save-base new.lp --kv-type 4bit"));
    refused("a smaller cache", dir.path(), quantized, 2, &["--save-base"]);
    let as_model = program("qsf-eval").args("base.lp -f other.txt");
    refused("a base as MODEL", dir.path(), as_model, 3, &["base.lp", "--base"]);
    let whole = fs::read(dir.path().join("base.lp")).unwrap();
    fs::write(dir.path().join("cut.lp"), &whole[..whole.len() - 7]).unwrap();
    let cut = call(&format!("{CHUNKS} --base cut.lp"));
    refused("a cut file", dir.path(), cut, 3, &["cut.lp", "cut short"]);
}

#[test]
fn bytes_that_changed_are_found_wherever_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (_, [file, _]) = saved(dir.path());
    let whole = fs::read(dir.path().join("base.lp")).unwrap();
    let mut dice = Dice::new(23);
    for i in 0..40 {
        // The first line and what is behind it have more ways to go wrong than rows.
        let span = if i % 2 == 0 { 700 } else { whole.len() };
        let at = dice.roll() as usize % span;
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (dice.roll() % 8);
        fs::write(dir.path().join("bad.lp"), &bytes).unwrap();
        let opened = SavedBase::open(&dir.path().join("bad.lp"));
        if let (Err(error), true) = (opened, i >= 4) {
            assert!(error.to_string().contains("bad.lp"), "{error}");
            continue;
        }
        let call = evaluation(dir.path(), &file, &format!("{CHUNKS} --base bad.lp"));
        refused(&format!("byte {at}"), dir.path(), call, 3, &["bad.lp"]);
    }
}
