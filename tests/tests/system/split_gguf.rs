//! GGUF models in several files: the same model, cut by the rule of llama-gguf-split, all of it or nothing.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_runtime::gguf::GgufFile;
use qsf_tests::*;

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

fn names(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

/// Checks that the files beginning with `first` are those of the one file `whole`, cut where llama-gguf-split would; gives their
/// number.
fn check_cut(first: &Path, whole: &Path, most: usize) -> usize {
    let (parts, whole) = (GgufFile::open(first).unwrap(), GgufFile::open(whole).unwrap());
    let keys = |file: &GgufFile| -> Vec<(String, u32, Vec<u8>)> {
        let all = file.metadata.stored().map(|(key, ty, bytes)| (key.to_owned(), ty, bytes.to_vec()));
        all.filter(|(key, ..)| !key.starts_with("split.")).collect()
    };
    assert!(keys(&parts) == keys(&whole), "the first says what the one file says");
    assert_eq!(parts.tensors.len(), whole.tensors.len());
    let padded = |at: usize| parts.bytes(&parts.tensors[at]).len().next_multiple_of(32);
    let (mut shard, mut bytes) = (0, 0);
    for (at, (tensor, other)) in parts.tensors.iter().zip(&whole.tensors).enumerate() {
        assert_eq!(tensor.name, other.name);
        assert!(parts.bytes(tensor) == whole.bytes(other), "{}", tensor.name);
        if at > 0 && bytes + padded(at) > most {
            (shard, bytes) = (shard + 1, 0);
        }
        assert_eq!(tensor.shard, shard, "{}", tensor.name);
        bytes += padded(at);
    }
    parts.shards.len()
}

#[test]
fn a_model_in_several_files_is_the_model_in_one() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let whole = dir.path().join("whole.gguf");
    convert(&model, &whole, "--quant Q8_0").run().ok();
    let split = dir.path().join("split");
    fs::create_dir(&split).unwrap();
    let report =
        convert(&model, &split.join("m.gguf"), "--quant Q8_0 --split-size 300kB --json").run().json();
    let files: Vec<PathBuf> =
        report["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap().into()).collect();
    let count = check_cut(&files[0], &whole, 300_000);
    assert!(count > 3 && files.len() == count, "{files:?}");
    assert_eq!(report["path"], files[0].to_str().unwrap());
    let expected: Vec<String> = (1..=count).map(|i| format!("m-{i:05}-of-{count:05}.gguf")).collect();
    assert_eq!(names(&split), expected, "and nothing else is left");
    let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert_eq!(report["file_bytes"], bytes);
    let dry = convert(&model, &split.join("m.gguf"), "--quant Q8_0 --split-size 300kB --dry-run --json");
    let dry = dry.run().json();
    assert_eq!((&dry["predicted_files"], &dry["predicted_file_bytes"]), (&count.into(), &bytes.into()));
    // The text of all of them, and of the one.
    let run = |path: &Path| {
        program("qsf-run").arg(path).args("--temp 0 -n 12").arg("-p").arg("It was a dark").run().ok().stdout
    };
    assert_eq!(run(&files[0]), run(&whole));
    // What fits is one file, under the name that was given.
    convert(&model, &split.join("one.gguf"), "--quant Q8_0 --split-size 1GB").run().ok();
    assert!(fs::read(split.join("one.gguf")).unwrap() == fs::read(&whole).unwrap());
}

#[test]
fn a_report_of_all_files_is_of_one_model() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    convert(&model, &dir.path().join("m.gguf"), "--quant Q8_0 --split-size 400kB").run().ok();
    let parts: Vec<PathBuf> = names(dir.path()).iter().map(|name| dir.path().join(name)).collect();
    let parts: Vec<&PathBuf> =
        parts.iter().filter(|path| path.extension().is_some_and(|end| end == "gguf")).collect();
    assert!(parts.len() > 1, "{parts:?}");
    let mut report = program("qsf-inspect").args("report --json -o").arg(dir.path().join("page.html"));
    for part in &parts {
        report = report.arg(part);
    }
    let report = report.run().json();
    let files = report["files"].as_array().unwrap();
    let bytes: u64 = parts.iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!((files.len(), files[0]["file_bytes"].as_u64()), (1, Some(bytes)), "{report}");
}

#[test]
fn types_that_are_known_late_are_cut_by_the_same_rule() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (whole, out, plan) =
        (dir.path().join("whole.gguf"), dir.path().join("m.gguf"), dir.path().join("plan.json"));
    let most = 90_000;
    let split = |args: &str| {
        let report =
            convert(&model, &out, &format!("{args} --split-size {most}B --json --force")).run().json();
        (PathBuf::from(report["path"].as_str().unwrap()), report)
    };
    // Chosen for a size, which all headers are a part of: the same types in one file would be a little smaller.
    let text =
        format!("--calibration {CALIBRATION} --calibration-tokens 1000 --save-plan {}", plan.display());
    let (first, report) = split(&format!("--target-size 700kB {text}"));
    let bytes = report["file_bytes"].as_u64().unwrap();
    assert!((690_000..=700_000).contains(&bytes), "{bytes}");
    convert(&model, &whole, &format!("--plan {}", plan.display())).run().ok();
    assert!(check_cut(&first, &whole, most) > 3);
    // Matrices that are too far from the original get larger types, which is found as they are encoded.
    let args = "--quant Q4_0 --min-cosine 0.998";
    let (first, report) = split(args);
    assert!(report["tensors"].as_array().unwrap().iter().any(|tensor| !tensor["promoted_from"].is_null()));
    convert(&model, &whole, &format!("{args} --force")).run().ok();
    assert!(check_cut(&first, &whole, most) > 3);
}

#[test]
fn no_file_gets_its_name_before_all_are_whole_and_none_is_replaced_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let out = dir.path().join("m.gguf");
    let args = "--quant F16 --split-size 10kB";
    // What a crash left is cleared.
    fs::create_dir(dir.path().join("m.gguf.partial")).unwrap();
    fs::write(dir.path().join("m.gguf.partial/7.gguf"), "left").unwrap();
    fs::write(dir.path().join("m.gguf.partial/.lock"), "").unwrap();
    let report = convert(&model, &out, &format!("{args} --json")).run().json();
    let files: Vec<PathBuf> =
        report["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap().into()).collect();
    assert!(leftovers(dir.path()).is_empty());
    let before = names(dir.path());
    let says = |args: &str, out: &Path, code: i32, says: &str| {
        let output = convert(&model, out, args).run();
        assert_eq!(output.code, code, "{}", output.stderr);
        assert!(output.stderr.contains(says), "{says}: {}", output.stderr);
        assert_eq!(names(dir.path()), before, "{says}");
    };
    // Another number of files would leave two models of one name.
    says("--quant F16 --split-size 15kB", &out, 2, "-00001-of-");
    says(args, &dir.path().join("n-00001-of-00002.gguf"), 2, "give n.gguf");
    says(args, &dir.path().join("n.qsf"), 2, "--split-size is for GGUF files");
    says("--split-size 0", &dir.path().join("n.gguf"), 2, "'0' is nothing");
    says("--shard-size 0 --to hf", &dir.path().join("n"), 2, "'0' is nothing");
    says("--split-size 10kB --to hf", &dir.path().join("n"), 2, "--shard-size");
    convert(&model, &out, &format!("{args} --force")).run().ok();
    assert_eq!(names(dir.path()), before);
    // The model's own files are never replaced.
    let own = convert(&files[0], &out, &format!("{args} --force")).run();
    assert!(own.code == 2 && own.stderr.contains("the model's own files"), "{}", own.stderr);
    // What misses its limits has the other name in all of its files.
    let limited = "--quant Q8_0 --split-size 10kB --max-kld 0 --eval-chunks 1 --json --eval";
    let limited = convert(&model, &dir.path().join("k.gguf"), limited).arg(TEXT).run();
    assert_eq!(limited.code, 6, "{}", limited.stderr);
    let added: Vec<String> = names(dir.path()).into_iter().filter(|name| !before.contains(name)).collect();
    assert!(added.len() > 2 && added.iter().all(|name| name.starts_with("k.rejected-000")), "{added:?}");
}

#[test]
fn a_part_that_is_missing_or_in_the_place_of_another_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let report =
        convert(&model, &dir.path().join("m.gguf"), "--quant F16 --split-size 10kB --json").run().json();
    let files: Vec<PathBuf> =
        report["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap().into()).collect();
    let refused = |says: &str| {
        let output = program("qsf-inspect").arg(&files[0]).run();
        assert_eq!(output.code, 3, "{}", output.stderr);
        let name = files[1].file_name().unwrap().to_str().unwrap();
        assert!(output.stderr.contains(says) && output.stderr.contains(name), "{}", output.stderr);
    };
    let aside = dir.path().join("aside");
    fs::rename(&files[1], &aside).unwrap();
    refused("cannot open");
    fs::copy(&files[2], &files[1]).unwrap();
    refused("split.no");
    fs::rename(&aside, &files[1]).unwrap();
    let bytes = fs::read(&files[1]).unwrap();
    fs::write(&files[1], &bytes[..bytes.len() - 40]).unwrap();
    refused("");
}
