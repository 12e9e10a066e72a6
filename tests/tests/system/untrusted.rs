//! `--untrusted`: what no limit bounds well is refused, other limits are lower, and good files work as ever.

use std::fs;

use qsf_format::{QsfFile, SectionTag};
use qsf_tests::forged::replace_section;
use qsf_tests::reseal::reseal_stored;
use qsf_tests::*;
use serde_json::{Value, json};

use crate::batch::Place;

#[test]
fn good_files_work_as_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let [plain, careful] = ["plain.qsf", "careful.qsf"].map(|name| dir.path().join(name));
    program("qsf-convert").arg(&model).arg(&plain).run().ok();
    program("qsf-convert").arg(&model).arg(&careful).args("--untrusted").run().ok();
    assert!(fs::read(&plain).unwrap() == fs::read(&careful).unwrap());
    let run = || program("qsf-run").arg(&careful).args("-p Once -n 4 --temp 0");
    assert_eq!(run().args("--untrusted").run().ok().stdout, run().run().ok().stdout);
    program("qsf-inspect").arg(&careful).args("--verify --untrusted").run().ok();
    program("qsf-inspect").args("diff --untrusted").arg(&plain).arg(&careful).run().ok();
    program("qsf-eval").arg(&careful).arg("-f").arg(TEXT).args("--chunks 1 --ctx 64 --untrusted").run().ok();
}

#[test]
fn what_cannot_be_bounded_is_refused() {
    let place = Place::new();
    let model = demo_model(place.0.path());
    fs::write(model.join("chat_template.jinja"), "{{ messages[0].content }}").unwrap();
    let chat = || program("qsf-run").arg(&model).args("--chat -p Hello -n 4 --temp 0");
    chat().run().ok();
    refused("a template", place.0.path(), chat().args("--untrusted"), 4, &["chat template", "--untrusted"]);

    let hub = program("qsf-convert").args("some/model --untrusted").arg(place.path("hub.qsf"));
    refused("a model of the hub", place.0.path(), hub, 2, &["some/model", "not with --untrusted"]);

    // A feed-forward that repeats itself every few kilobytes, and expands to 50 MB.
    let (hidden, ffn) = (512, 8192);
    let again = place.path("again");
    write_llama(&again, Size { hidden, ffn, layers: 1, vocab: 300 }, 1);
    let mut weights = SafetensorsFile::of_model(&again);
    for (name, shape) in [("gate", [ffn, hidden]), ("up", [ffn, hidden]), ("down", [hidden, ffn])] {
        let name = format!("model.layers.0.mlp.{name}_proj.weight");
        weights.put(&name, &shape, |i| (i as u32 % 2048).wrapping_mul(2_654_435_761) as f32 * 1e-12);
    }
    weights.save();
    let file = place.path("again.qsf");
    program("qsf-convert").arg(&again).arg(&file).args("-q f32 --compress zstd").run().ok();
    assert!(fs::metadata(&file).unwrap().len() < 8 << 20);
    let run = || program("qsf-run").arg(&file).args("--prompt-ids 1,2 -n 1 --temp 0");
    run().run().ok();
    refused(
        "expansion",
        place.0.path(),
        run().args("--untrusted"),
        4,
        &["again.qsf", "expand", "--untrusted"],
    );

    // All jobs of a batch are told.
    place.list(&[json!({ "model": "again.qsf", "output": "out.qsf", "quant": "f32" })]);
    let found = place.summary("--untrusted", 6);
    assert!(found["jobs"][0]["error"].as_str().unwrap().contains("--untrusted"), "{found}");
}

#[test]
fn limits_are_half_of_what_they_are_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let config = model.join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}{}", " ".repeat(9 << 20))).unwrap();
    let run = || program("qsf-run").arg(&model).args("-p Once -n 1 --temp 0");
    run().run().ok();
    refused("9 MiB", dir.path(), run().args("--untrusted"), 3, &["config.json", "at most 8388608"]);
}

#[cfg(unix)]
#[test]
fn a_model_directory_reads_no_file_of_the_user() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let model = demo_model(dir.path());
    fs::write(path("secret"), "SECRET KEY MATERIAL").unwrap();
    let to_hf = || program("qsf-convert").arg(&model).arg(path("hf")).args("--to hf");
    symlink("../secret", model.join("vocab.txt")).unwrap();
    refused("a vocabulary", dir.path(), to_hf(), 3, &["vocab.txt", "a link to", "secret"]);
    fs::remove_file(model.join("vocab.txt")).unwrap();
    symlink(path("secret"), model.join("chat_template.jinja")).unwrap();
    refused("a template", dir.path(), to_hf(), 3, &["chat_template.jinja", "a link to"]);
    let to_qsf = program("qsf-convert").arg(&model).arg(path("a.qsf"));
    refused("a template in a file", dir.path(), to_qsf, 3, &["chat_template.jinja", "a link to"]);
    fs::remove_file(model.join("chat_template.jinja")).unwrap();
    // Weights may lie on another disk, if their author is no stranger.
    fs::rename(model.join("model.safetensors"), path("disk")).unwrap();
    symlink("../disk", model.join("model.safetensors")).unwrap();
    let run = || program("qsf-run").arg(&model).args("-p Once -n 1 --temp 0");
    run().run().ok();
    refused("weights", dir.path(), run().args("--untrusted"), 3, &["model.safetensors", "a link to"]);
    // In the hub's cache all files are links.
    let [blobs, snapshot] = ["blobs", "snapshots/x"].map(|name| path("models--a--b").join(name));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    for entry in fs::read_dir(&model).unwrap() {
        let name = entry.unwrap().file_name();
        fs::copy(model.join(&name), blobs.join(&name)).unwrap();
        symlink(std::path::Path::new("../../blobs").join(&name), snapshot.join(&name)).unwrap();
    }
    let cached = || program("qsf-run").arg(path("models--a--b")).args("-p Once -n 1 --temp 0 --untrusted");
    cached().run().ok();
    // What says which snapshot is meant says nothing else, and is a file.
    fs::create_dir(path("models--a--b/refs")).unwrap();
    let main = path("models--a--b/refs/main");
    for elsewhere in [model.to_str().unwrap(), "../../demo-1m"] {
        fs::write(&main, elsewhere).unwrap();
        refused("another directory", dir.path(), cached(), 3, &["refs/main", elsewhere]);
    }
    fs::remove_file(&main).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&main).status().unwrap().success());
    let waits = cached().run();
    assert!(waits.code == 3 && waits.stderr.contains("no regular file"), "{}", waits.stderr);
    fs::remove_file(&main).unwrap();
    symlink("/dev/zero", &main).unwrap();
    let endless = cached().run();
    assert!(endless.code == 3 && endless.stderr.contains("no regular file"), "{}", endless.stderr);
}

#[test]
fn a_name_in_a_file_cannot_turn_the_direction_of_reading() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.qsf");
    program("qsf-convert").arg(small_model(dir.path())).arg(&file).run().ok();
    let mut bytes = fs::read(&file).unwrap();
    let meta = QsfFile::open(&file).unwrap().section_bytes(SectionTag::META).unwrap().unwrap();
    let mut meta: Value = serde_json::from_slice(&meta).unwrap();
    meta["provenance"]["tool"] = "fsq\u{202e}live".into();
    replace_section(&mut bytes, b"META", meta.to_string().as_bytes(), 0);
    reseal_stored(&mut bytes);
    fs::write(&file, bytes).unwrap();
    let said = program("qsf-inspect").arg(&file).run().ok().stdout;
    assert!(said.contains("fsq\\u{202e}live") && !said.contains('\u{202e}'), "{said}");
    // And in errors.
    let model = demo_model(dir.path());
    change_config(&model, "model_type", "lla\u{2066}ma".into());
    let said = program("qsf-inspect").arg(&model).run().stderr;
    assert!(!said.contains('\u{2066}'), "{said}");
}
