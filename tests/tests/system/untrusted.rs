//! `--untrusted`: what no limit bounds well is refused, other limits are lower, and good files work as ever.

use std::fs;

use qsf_tests::*;
use serde_json::json;

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
