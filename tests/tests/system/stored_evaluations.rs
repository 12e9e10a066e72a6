//! `qsf-eval --store`: a file gets an evaluation later, and stays what it was.

use std::fs;
use std::path::Path;

use qsf_tests::*;
use serde_json::Value;

fn stored(file: &Path) -> Value {
    program("qsf-inspect").arg(file).arg("--json").run().json()["evaluation"].clone()
}

fn store(file: &Path, base: &Path, more: &str) -> Program {
    let call = program("qsf-eval").arg(file).arg("--base").arg(base).arg("--file").arg(TEXT);
    call.args("--store").args(more)
}

#[test]
fn a_stored_evaluation_is_the_one_that_the_conversion_stores_to_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (with, without) = (dir.path().join("with.qsf"), dir.path().join("without.qsf"));
    let convert = |out: &Path| program("qsf-convert").arg(&model).arg(out).args("-q 4bit --clusters 8");
    convert(&with).arg("--eval").arg(TEXT).args("--eval-chunks 2").run().ok();
    convert(&without).run().ok();
    let bare = fs::read(&without).unwrap();
    assert!(stored(&without).is_null());
    store(&without, &model, "--chunks 2").run().ok();
    assert!(fs::read(&with).unwrap() == fs::read(&without).unwrap(), "other bytes than qsf-convert --eval");
    // One on another part of the text takes its place.
    store(&without, &model, "--chunks 1").run().ok();
    assert_eq!(stored(&without)["chunks"], 1);
    program("qsf-inspect").arg(&without).arg("--verify").run().ok();
    store(&without, &model, "--chunks 2").run().ok();
    assert!(fs::read(&with).unwrap() == fs::read(&without).unwrap(), "something of the older one was left");
    assert!(bare.len() < fs::read(&without).unwrap().len());
}

#[test]
fn what_cannot_be_stored_is_refused_before_the_work_and_the_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = dir.path().join("a.qsf");
    program("qsf-convert").arg(&model).arg(&file).args("-q 4bit").run().ok();
    refused("a directory", dir.path(), store(&model, &model, "--chunks 1"), 2, &["no QSF file"]);
    let alone = program("qsf-eval").arg(&file).arg("--file").arg(TEXT).arg("--store");
    refused("no base", dir.path(), alone, 2, &["--base"]);
    refused("a part", dir.path(), store(&file, &model, "--kv-type 8bit"), 2, &["--store"]);
    // A damaged file does not get new checksums.
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).unwrap();
    refused("damage", dir.path(), store(&file, &model, "--chunks 1"), 3, &["a.qsf"]);
    // Another model is not called the source in silence.
    let other = dir.path().join("other.qsf");
    program("qsf-convert").arg(&model).arg(&other).args("-q 8bit").run().ok();
    let again = dir.path().join("again.qsf");
    program("qsf-convert").arg(&model).arg(&again).args("-q 2bit").run().ok();
    let found = store(&again, &other, "--chunks 1").run();
    assert!(found.code == 0 && found.stderr.contains("warning: --store"), "{}", found.stderr);
}
