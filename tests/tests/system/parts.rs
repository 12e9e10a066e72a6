//! Work on one model in parts, as several machines share it: an evaluation by parts of its chunks, statistics by parts of their
//! text.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_calibration::{LayerStats, MergedStats};
use qsf_tests::*;
use serde_json::Value;

/// Without what depends on how fast a machine is.
fn figures(mut value: Value) -> Value {
    for name in ["seconds", "decode_tokens_per_second"] {
        if !value[name].is_null() {
            assert!(value[name].as_f64().unwrap() > 0.0);
            value[name] = Value::Null;
        }
    }
    value
}

/// A call of `--join` of these parts.
fn join(parts: &[PathBuf]) -> Program {
    parts.iter().fold(program("qsf-eval").arg("--join"), |call, part| call.arg(part))
}

#[test]
fn parts_of_an_evaluation_give_the_figures_of_one_run_to_the_last_bit() {
    let dir = tempfile::tempdir().unwrap();
    let (model, file) = (demo_model(dir.path()), dir.path().join("out.qsf"));
    program("qsf-convert").arg(&model).arg(&file).args("-q 3bit --early-exit --clusters 64").run().ok();
    let base = format!("--base {}", model.display());
    for (number, flags) in [
        base.clone(),
        "-c 96".into(),
        format!("{base} --kv-type 4bit --kv-window 80 --kv-policy h2o"),
        format!("{base} --early-exit 0.7 --head clusters"),
    ]
    .iter()
    .enumerate()
    {
        let evaluation = || {
            let call = program("qsf-eval").arg(&file).arg("--file").arg(TEXT);
            call.args("--chunks 11 --json")
                .args(if flags.starts_with("-c") { "" } else { "-c 160" })
                .args(flags)
        };
        let whole = figures(evaluation().args("-t 1").run().json());
        let parts: Vec<PathBuf> = (1..=4).map(|i| dir.path().join(format!("{number}-{i}.part"))).collect();
        for (i, part) in (1..).zip(&parts) {
            // Other machines than that of the whole.
            let isa = if i % 2 == 0 {
                "scalar"
            } else if has_avx2() {
                "avx2"
            } else {
                "scalar"
            };
            let call = evaluation().arg(format!("--part={i}/4")).arg("--part-out").arg(part);
            let said = call.args("-t 2").env("QSF_CPU", isa).run().json();
            let chunks = [2, 3, 3, 3][i - 1];
            assert_eq!((&said["chunks"], &said["total_chunks"]), (&chunks.into(), &11.into()), "{said}");
        }
        let mixed: Vec<PathBuf> = [2, 0, 3, 1].map(|i: usize| parts[i].clone()).into();
        let mut joined = join(&mixed).arg("--json").run().json();
        let said = joined.as_object_mut().unwrap().remove("parts").unwrap();
        let firsts: Vec<u64> =
            said.as_array().unwrap().iter().map(|part| part["first_chunk"].as_u64().unwrap()).collect();
        assert_eq!(firsts, [0, 2, 5, 8]);
        assert_eq!(figures(joined).to_string(), whole.to_string(), "{flags}");
    }
    let parts: Vec<PathBuf> = (1..=4).map(|i| dir.path().join(format!("0-{i}.part"))).collect();
    let text = join(&parts).run().ok().stdout;
    for part in
        ["out.qsf on demo.txt: 11 chunks of 160 tokens", "perplexity of base", "99.9 %", "same top token"]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn a_budget_of_memory_changes_no_figure_of_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let (model, file) = (demo_model(dir.path()), dir.path().join("out.qsf"));
    program("qsf-convert").arg(&model).arg(&file).args("-q 8bit").run().ok();
    let evaluation = || {
        program("qsf-eval").arg(&file).arg("--file").arg(TEXT).args("-c 64 --chunks 4 --kv-type f16 --json")
    };
    let whole = evaluation().run().json();
    let parts = ["1", "2"].map(|i| dir.path().join(i));
    let part = |i: usize| evaluation().arg(format!("--part={i}/2")).arg("--part-out").arg(&parts[i - 1]);
    part(1).args("--ram-budget 60").run().ok();
    part(2).run().ok();
    let joined = join(&parts).arg("--json").run().json();
    assert_eq!((&joined["ppl"], &joined["ppl_stderr"]), (&whole["ppl"], &whole["ppl_stderr"]));
    assert!(
        joined["parts"][0]["streaming"]["budget_bytes"].is_u64() && joined["parts"][1]["streaming"].is_null()
    );
}

#[test]
fn parts_that_do_not_make_one_evaluation_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let path = |name: &str| dir.path().join(name);
    program("qsf-convert").arg(&model).arg(path("4.qsf")).run().ok();
    program("qsf-convert").arg(&model).arg(path("3.qsf")).args("-q 3bit").run().ok();
    fs::write(path("other.txt"), fs::read_to_string(TEXT).unwrap().replace("Christmas", "Whitsun")).unwrap();
    let part = |name: &str, file: &str, text: &Path, args: &str| {
        let call =
            program("qsf-eval").arg(path(file)).arg("--file").arg(text).args("--chunks 4 -c 32").args(args);
        call.arg("--part-out").arg(path(name))
    };
    let text = Path::new(TEXT);
    part("1", "4.qsf", text, "--part 1/2").run().ok();
    part("2", "4.qsf", text, "--part 2/2").run().ok();
    part("model", "3.qsf", text, "--part 2/2").run().ok();
    part("text", "4.qsf", &path("other.txt"), "--part 2/2").run().ok();
    part("activations", "4.qsf", text, "--part 2/2 --activations f32").run().ok();
    part("base", "4.qsf", text, "--part 2/2 --base demo-1m").dir(dir.path()).run().ok();
    part("last", "4.qsf", text, "--part 4/4").run().ok();
    let bytes = fs::read(path("2")).unwrap();
    fs::write(path("cut"), &bytes[..bytes.len() - 1]).unwrap();
    fs::write(path("nothing"), "").unwrap();
    let joined = |names: &[&str]| join(&names.iter().map(|name| path(name)).collect::<Vec<_>>());
    joined(&["2", "1"]).run().ok();
    for (names, says) in [
        (&["1"][..], &["all parts", "chunks 2 to 3"][..]),
        (&["2"], &["chunks 0 to 1"]),
        (&["1", "last"], &["chunks 2 to 2"]),
        (&["1", "2", "2"], &["chunk 2", "which", "once"]),
        (&["1", "2", "last"], &["chunk 3", "which"]),
        (&["1", "model"], &["its model", "expected", "as in"]),
        (&["1", "text"], &["its text"]),
        (&["1", "activations"], &["its activations", "int8", "f32"]),
        (&["1", "base"], &["base"]),
        (&["1", "cut"], &["cut", "SHA-256"]),
        (&["1", "nothing"], &["nothing", "qsf-eval --part"]),
        (&["1", "4.qsf"], &["4.qsf", "qsf-eval --part"]),
        (&["1", "nowhere"], &["nowhere"]),
    ] {
        refused(&format!("{names:?}"), dir.path(), joined(names), 3, says);
    }
    refused("there already", dir.path(), part("1", "4.qsf", text, "--part 1/2"), 2, &["exists", "--force"]);
    part("1", "4.qsf", text, "--part 1/2 --force").run().ok();
    refused("too many", dir.path(), part("new", "4.qsf", text, "--part 1/5"), 2, &["4 chunks"]);
    refused("no part", dir.path(), part("new", "4.qsf", text, "--part 3/2"), 2, &["3/2"]);
    let without_file = program("qsf-eval").arg(path("4.qsf")).arg("--file").arg(TEXT).args("--part 1/2");
    refused("nowhere to write", dir.path(), without_file, 2, &["--part-out"]);
    refused("join of a model", dir.path(), joined(&["1", "2"]).args("--ctx 32"), 2, &["--ctx"]);
}

/// A call that makes statistics of a text that is no whole number of sequences.
fn statistics(model: &Path, out: &Path, args: &str) -> Program {
    let call = program("qsf-convert").arg(model).args("--stats-only --calibration").arg(CALIBRATION);
    call.args("--calibration-tokens 5900").arg("--stats-out").arg(out).args(args)
}

/// The greatest difference between two lists, each in relation to `scale` of its place.
fn difference(found: &[f64], expected: &[f64], scale: impl Fn(usize) -> f64) -> f64 {
    assert_eq!(found.len(), expected.len());
    let relative = |(i, (a, b)): (usize, (&f64, &f64))| if a == b { 0.0 } else { (a - b).abs() / scale(i) };
    found.iter().zip(expected).enumerate().map(relative).fold(0.0, f64::max)
}

#[test]
fn statistics_of_parts_of_a_text_add_up_to_those_of_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let path = |name: &str| dir.path().join(name);
    statistics(&model, &path("whole"), "").run().ok();
    let shards: Vec<PathBuf> = (1..=4).map(|i| path(&format!("shard-{i}"))).collect();
    let mut tokens = Vec::new();
    for (i, shard) in (1..).zip(&shards) {
        let said = statistics(&model, shard, &format!("--stats-part {i}/4 --json")).run().json();
        assert_eq!(said["part"], format!("{i}/4"));
        tokens.push(said["tokens"].as_u64().unwrap());
    }
    // Twelve sequences of 512, of which the last is shorter.
    assert_eq!(tokens, [1536, 1536, 1536, 1292]);
    let call = shards.iter().fold(program("qsf-convert").arg("--merge-stats"), |call, shard| call.arg(shard));
    let said = call.arg("--stats-out").arg(path("merged")).arg("--json").run().json();
    assert_eq!((&said["tokens"], &said["texts"]), (&5900.into(), &4.into()));

    let (mut whole, mut merged) =
        (MergedStats::open(&[path("whole")]).unwrap(), MergedStats::open(&[path("merged")]).unwrap());
    assert_eq!(merged.layers(), whole.layers());
    for layer in whole.layers() {
        let (whole, merged): (LayerStats, LayerStats) =
            (whole.layer(layer).unwrap(), merged.layer(layer).unwrap());
        let influence = |stats: &LayerStats| stats.influence.unwrap_or(1.0);
        assert!((influence(&whole) - influence(&merged)).abs() < 1e-6 * influence(&whole), "{layer:?}");
        assert!(whole.inputs.keys().eq(merged.inputs.keys()));
        for (input, whole) in &whole.inputs {
            let merged = &merged.inputs[input];
            assert_eq!(whole.tokens(), merged.tokens());
            let (means, squares) = (whole.mean(), whole.mean_square());
            assert!(difference(&merged.mean(), &means, |i| means[i].abs()) < 1e-6, "{layer:?} {input:?}");
            assert!(
                difference(&merged.mean_square(), &squares, |i| squares[i]) < 1e-6,
                "{layer:?} {input:?}"
            );
            let wide =
                |moment: Option<Vec<f32>>| moment.unwrap().into_iter().map(f64::from).collect::<Vec<_>>();
            let n = squares.len();
            // A product of columns that hardly go together is next to nothing, by cancellation: its scale is theirs.
            let scale = |i: usize| (squares[i / n] * squares[i % n]).sqrt();
            let found = difference(&wide(merged.second_moment()), &wide(whole.second_moment()), scale);
            assert!(found < 1e-6, "{layer:?} {input:?}: {found}");
        }
    }
    // The file of the sums is as good as the files, to the bit; and close to that of the whole text.
    let converted = |stats: &[PathBuf], out: &str| {
        let call = program("qsf-convert").arg(&model).arg(path(out)).args("-q n3");
        stats.iter().fold(call, |call, stats| call.arg("--stats-in").arg(stats)).run().ok();
        let call = program("qsf-eval").arg(path(out)).arg("--base").arg(&model).arg("--file").arg(TEXT);
        call.args("--ctx 256 --chunks 4 --json").run().json()["kld"]["mean"].as_f64().unwrap()
    };
    converted(&shards, "by-shards.qsf");
    let by_sums = converted(&[path("merged")], "by-sums.qsf");
    assert!(fs::read(path("by-shards.qsf")).unwrap() == fs::read(path("by-sums.qsf")).unwrap());
    let by_whole = converted(&[path("whole")], "by-whole.qsf");
    assert!((by_sums - by_whole).abs() < 0.02 * by_whole, "KLD {by_sums} by sums, {by_whole} by the whole");

    // What is there is not made again, and nothing else is put in its place.
    let before = fs::metadata(&shards[0]).unwrap().modified().unwrap();
    let again = statistics(&model, &shards[0], "--stats-part 1/4").run();
    assert!(again.code == 0 && again.stderr.contains("is there already"), "{}", again.stderr);
    assert_eq!(fs::metadata(&shards[0]).unwrap().modified().unwrap(), before);
    refused("another part", dir.path(), statistics(&model, &shards[0], "--stats-part 2/4"), 2, &["exists"]);
}

#[test]
fn statistics_that_cannot_be_made_so_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("new.stats");
    for (args, says) in [
        ("--stats-part 1/13", "12 sequences"),
        ("--stats-part 2/1", "2/1"),
        ("-q 8bit", "--quant"),
        ("--effort max", "--effort"),
        ("--eval text.txt", "--eval"),
        ("--dry-run", "--dry-run"),
    ] {
        refused(args, dir.path(), statistics(&model, &out, args), 2, &[says]);
    }
    let convert = || program("qsf-convert").arg(&model);
    refused("no file", dir.path(), convert().arg("--stats-only"), 2, &["--stats-out"]);
    let whole = convert().args("--stats-part 1/2 --stats-out new.stats");
    refused("a part of a conversion", dir.path(), whole, 2, &["--stats-only"]);
    refused("nowhere to", dir.path(), program("qsf-convert").args("--merge-stats a b"), 2, &["--stats-out"]);
    let merge = || program("qsf-convert").args("--stats-out new.stats --merge-stats");
    refused("no such file", dir.path(), merge().arg("nowhere"), 3, &["nowhere"]);
    let small = dir.path().join("small.stats");
    convert().args("--stats-only --calibration-tokens 20 --stats-out").arg(&small).run().ok();
    let other = dir.path().join("other");
    write_llama(&other, Size { vocab: 2048, ..Size::TINY }, 1);
    fs::copy(model.join("tokenizer.json"), other.join("tokenizer.json")).unwrap();
    let call = program("qsf-convert").arg(&other).args("--stats-only --calibration-tokens 20 --stats-out");
    call.arg(dir.path().join("other.stats")).run().ok();
    refused("two models", dir.path(), merge().args("small.stats other.stats"), 3, &["other.stats", "model"]);
    let input = model.join("model.safetensors");
    let call = convert().args("--stats-only --force --calibration-tokens 20 --stats-out").arg(&input);
    refused("over its own input", dir.path(), call, 2, &["model.safetensors"]);
}
