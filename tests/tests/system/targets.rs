//! Files of a given size: what is asked for is kept, what is chosen can be seen and replayed, and work that was stopped goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use qsf_tests::*;
use serde_json::Value;

/// Tokens of a model that knows few.
const WORDS: [&str; 12] = ["?", "the", "of", "and", "a", "to", "in", "is", "that", "it", "was", "for"];

fn call(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

fn divergence(file: &Path, model: &Path) -> f64 {
    let call = program("qsf-eval").arg(file).arg("--base").arg(model).arg("--file").arg(TEXT);
    call.args("--ctx 256 --chunks 12 --json").run().json()["kld"]["mean"].as_f64().unwrap()
}

fn types(plan: &Path) -> Value {
    serde_json::from_slice::<Value>(&fs::read(plan).unwrap()).unwrap()["types"].clone()
}

fn journal(out: &Path) -> PathBuf {
    PathBuf::from(format!("{}.journal", out.display()))
}

#[test]
fn a_target_is_never_exceeded_nearly_met_and_better_than_a_uniform_type_of_that_size() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let uniform = dir.path().join("uniform.qsf");
    let args = format!("-q n3 --calibration {CALIBRATION} --calibration-tokens 4096");
    call(&model, &uniform, &args).run().ok();
    let size = fs::metadata(&uniform).unwrap().len();
    let out = dir.path().join("target.qsf");
    let plan = dir.path().join("plan.json");
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 4096");
    let args = format!("--target-size {size}B {text} --save-plan {}", plan.display());
    call(&model, &out, &args).run().ok();
    let found = fs::metadata(&out).unwrap().len();
    assert!(found <= size && found * 1000 >= size * 995, "{found} bytes for {size}");
    let (chosen, same) = (divergence(&out, &model), divergence(&uniform, &model));
    assert!(chosen < 0.95 * same, "KLD {chosen} with chosen types, {same} with n3 throughout");
    assert!(!journal(&out).exists());

    // What was chosen, edited and replayed.
    let mut edited: Value = serde_json::from_slice(&fs::read(&plan).unwrap()).unwrap();
    edited["types"]["layer 0 attn_v"] = "8bit".into();
    fs::write(&plan, edited.to_string()).unwrap();
    let again = dir.path().join("again.qsf");
    let replayed = call(&model, &again, &format!("--plan {}", plan.display())).run();
    assert!(
        replayed.code == 0 && replayed.stderr.contains("types of the plan were edited"),
        "{}",
        replayed.stderr
    );
    let tensors = program("qsf-inspect").arg(&again).args("--tensors --json").run().json()["tensors"].clone();
    for tensor in tensors.as_array().unwrap() {
        let (layer, kind) = (tensor["layer"].as_u64(), tensor["kind"].as_str().unwrap());
        let name = layer.map_or(kind.to_owned(), |layer| format!("layer {layer} {kind}"));
        if let Some(wanted) = types(&plan).get(&name) {
            // Of rows in several types, those of most rows come last.
            let of_most = wanted.as_str().and_then(|form| form.rsplit('/').next());
            assert_eq!(tensor["type"].as_str(), of_most, "{name}");
        }
    }
    let refusals: [(&str, &str); 3] = [
        ("--target-size 20kB", "smallest"),
        ("--target-size 1MB --plan PLAN", "--plan"),
        ("--target-bpw 0", "--target-bpw"),
    ];
    for (args, part) in refusals {
        let args = args.replace("PLAN", plan.to_str().unwrap());
        refused(&args, dir.path(), call(&model, &dir.path().join("no.qsf"), &args), 2, &[part]);
    }
}

#[test]
fn a_target_without_a_text_uses_the_built_in_one_and_bits_per_weight_count_the_whole_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    let report = call(&model, &out, "--target-bpw 4.5 --calibration-tokens 4096 --json").run().json();
    let bits = report["bits_per_weight"].as_f64().unwrap();
    assert!(bits <= 4.5 && bits > 4.47, "{bits}");
    let options =
        program("qsf-inspect").arg(&out).arg("--json").run().json()["provenance"]["options"].clone();
    assert_eq!(options["calibration"]["tokens"], 4096);
    assert!(options["size_limit"].as_u64().unwrap() > 100_000);
    // More than any file needs: the best types, and no number that overflows.
    let args = format!("--target-size {}B --calibration-tokens 600 --json -f", u64::MAX);
    let found = call(&model, &out, &args).run();
    assert!(
        found.code == 0 && found.stderr.contains("no larger types would make it better"),
        "{}",
        found.stderr
    );
    let report: Value = serde_json::from_str(&found.stdout).unwrap();
    let bits = report["bits_per_weight"].as_f64().unwrap();
    assert!(bits > 8.2 && bits < 9.0, "{bits}");
}

/// Bytes of a journal that nothing is in yet.
const JOURNAL_HEADER: u64 = 40;
/// More than the first record of any journal here has, which is what was measured of a layer.
const FIRST_RECORD: u64 = 16 << 10;

/// Runs a killed conversion to its end, if it had not come there; it says that it goes on where something had been kept.
fn finish(model: &Path, out: &Path, args: &str) {
    if out.exists() {
        return;
    }
    let kept = journal(out).metadata().map_or(0, |found| found.len());
    let found = call(model, out, args).run();
    assert_eq!(found.code, 0, "{}", found.stderr);
    let goes_on = found.stderr.contains("note: going on from");
    // In between it may be that the first record is not whole.
    if kept <= JOURNAL_HEADER || kept > JOURNAL_HEADER + FIRST_RECORD {
        assert_eq!(goes_on, kept > JOURNAL_HEADER, "{kept} bytes were kept: {}", found.stderr);
    }
}

#[test]
fn a_conversion_that_was_killed_goes_on_and_gives_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let whole = dir.path().join("whole.qsf");
    let args = format!("--target-bpw 6 --calibration {CALIBRATION} --calibration-tokens 4096");
    let started = Instant::now();
    call(&model, &whole, &args).run().ok();
    let took = started.elapsed();
    let out = dir.path().join("killed.qsf");
    for part in 1..=9u32 {
        let mut child = call(&model, &out, &args).start();
        std::thread::sleep((took * part / 10).min(Duration::from_secs(5)));
        child.kill().unwrap();
        child.wait().unwrap();
        if out.exists() {
            break;
        }
    }
    if journal(&out).exists() {
        // Another model, text or choice is told from this one, and changes nothing.
        let other = call(&model, &out, &format!("--target-bpw 6.1 --calibration {CALIBRATION}"));
        let found = other.run();
        assert_eq!(found.code, 2, "{}", found.stderr);
        assert!(found.stderr.contains("killed.qsf.journal"), "{}", found.stderr);
    }
    finish(&model, &out, &args);
    assert!(fs::read(&out).unwrap() == fs::read(&whole).unwrap(), "other bytes after kills");
    assert!(!journal(&out).exists());
}

#[test]
fn more_effort_makes_another_file_of_the_same_size_that_is_no_worse_but_by_chance() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let args = format!("-q n3 --tensor-type token_embedding=8bit --calibration {CALIBRATION}");
    let [normal, high] = ["normal.qsf", "high.qsf"].map(|name| dir.path().join(name));
    let found = call(&model, &normal, &format!("{args} --calibration-tokens 16384 -v")).run();
    assert!(found.code == 0 && found.stderr.contains("measuring gradients"), "{}", found.stderr);
    let found = call(&model, &high, &format!("{args} --calibration-tokens 16384 --effort high")).run().ok();
    assert!(!found.stderr.contains("warning"), "{}", found.stderr);
    assert_eq!(fs::metadata(&high).unwrap().len(), fs::metadata(&normal).unwrap().len());
    let (less, more) = (divergence(&high, &model), divergence(&normal, &model));
    assert!(fs::read(&high).unwrap() != fs::read(&normal).unwrap(), "more effort changed nothing");
    assert!(less < 1.05 * more, "KLD {less} with more effort, {more} without");

    // With the highest, all is the same, and tuned then.
    let max = dir.path().join("max.qsf");
    let found = call(&model, &max, &format!("{args} --calibration-tokens 16384 --effort max")).run();
    let says_so = found.stderr.contains("note: tuned: KL divergence 0.");
    assert!(found.code == 0 && says_so, "{}", found.stderr);
    let tuned = divergence(&max, &model);
    assert!(tuned < less, "KLD {tuned} tuned, {less} not");
}

#[test]
fn low_effort_chooses_types_by_gradients_and_loses_little() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let args = format!("--target-size 560kB --calibration {CALIBRATION} --calibration-tokens 16384");
    let [normal, low] = ["normal.qsf", "low.qsf"].map(|name| dir.path().join(name));
    call(&model, &normal, &args).run().ok();
    let found = call(&model, &low, &format!("{args} --effort low -v")).run();
    assert_eq!(found.code, 0, "{}", found.stderr);
    let steps = ["measuring gradients", "choosing types", "quantizing"].map(|step| found.stderr.find(step));
    assert!(steps.is_sorted() && steps[0].is_some(), "{}", found.stderr);
    let size = fs::metadata(&low).unwrap().len();
    assert!((540_000..=560_000).contains(&size), "{size} bytes");
    let (less, more) = (divergence(&normal, &model), divergence(&low, &model));
    assert!(more < 1.5 * less, "KLD {more} with low effort, {less} with normal");
}

#[test]
fn a_model_without_gradients_is_fitted_to_its_inputs_and_says_so_where_more_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("mamba2");
    let fixture = golden("mamba2");
    fs::create_dir(&model).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(fixture.join(name), model.join(name)).unwrap();
    }
    let words: Vec<String> = WORDS.iter().enumerate().map(|(i, word)| format!("\"{word}\": {i}")).collect();
    let vocab = words.join(", ");
    let tokenizer = format!(
        "{{\"model\": {{\"type\": \"WordLevel\", \"vocab\": {{{vocab}}}, \"unk_token\": \"?\"}}, \
         \"pre_tokenizer\": {{\"type\": \"WhitespaceSplit\"}}}}"
    );
    fs::write(model.join("tokenizer.json"), tokenizer).unwrap();
    let args = format!("-q n3 --calibration {CALIBRATION} --calibration-tokens 600");
    let found = call(&model, &dir.path().join("normal.qsf"), &args).run();
    assert!(found.code == 0 && !found.stderr.contains("gradients"), "{}", found.stderr);
    let found = call(&model, &dir.path().join("out.qsf"), &format!("{args} --effort high")).run();
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stderr.contains("gradients of recurrent mixers"), "{}", found.stderr);
}

#[test]
fn the_highest_effort_is_no_worse_at_the_same_size_but_by_chance() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let args = format!("--target-bpw 3.3 --calibration {CALIBRATION} --calibration-tokens 4096");
    let [normal, max] = ["normal.qsf", "max.qsf"].map(|name| dir.path().join(name));
    call(&model, &normal, &args).run().ok();
    call(&model, &max, &format!("{args} --effort max")).run().ok();
    let size = fs::metadata(&max).unwrap().len();
    assert!(size * 1000 <= fs::metadata(&normal).unwrap().len() * 1005, "{size} bytes");
    let (less, more) = (divergence(&max, &model), divergence(&normal, &model));
    assert!(less < 1.05 * more, "KLD {less} with the highest effort, {more} without");
}

#[test]
fn the_highest_effort_goes_on_where_it_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let args = format!("--target-bpw 6 --calibration {CALIBRATION} --calibration-tokens 16384 --effort max");
    let (max, out) = (dir.path().join("max.qsf"), dir.path().join("killed.qsf"));
    let started = Instant::now();
    let found = call(&model, &max, &args).run();
    assert!(found.code == 0 && found.stderr.contains("note: tuned"), "{}", found.stderr);
    let took = started.elapsed();
    for part in [3, 5, 7, 9] {
        let mut child = call(&model, &out, &args).start();
        std::thread::sleep(took * part / 10);
        child.kill().unwrap();
        child.wait().unwrap();
        // A machine that is less busy than it was may be done by now.
        if out.exists() {
            break;
        }
    }
    finish(&model, &out, &args);
    assert!(fs::read(&out).unwrap() == fs::read(&max).unwrap(), "other bytes after kills");
}

#[test]
fn an_evaluation_is_printed_and_stored_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    let args = format!("-q 4bit --eval {TEXT} --eval-chunks 4");
    let report = call(&model, &out, &args).arg("--json").run().json();
    let call = program("qsf-eval").arg(&out).arg("--base").arg(&model).arg("--file").arg(TEXT);
    let again = call.args("--ctx 512 --chunks 4 --json").run().json();
    let stored = program("qsf-inspect").arg(&out).args("--verify --json").run().json()["evaluation"].clone();
    for field in ["ppl", "base_ppl", "kld", "top1", "tokens"] {
        assert_eq!(stored[field], again[field], "{field}");
        assert_eq!(report["evaluation"][field], again[field], "{field}");
    }
    let shown = program("qsf-inspect").arg(&out).run().ok().stdout;
    assert!(shown.contains("KL divergence"), "{shown}");
}

#[test]
fn statistics_in_files_stand_in_for_the_text_and_those_of_another_model_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (out, stats) = (dir.path().join("out.qsf"), dir.path().join("demo.stats"));
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 1500");
    let args = format!("-q n3 {text} --stats-out {}", stats.display());
    call(&model, &out, &args).run().ok();
    let shown = program("qsf-convert").arg("--show-stats").arg(&stats).arg("--json").run().json();
    assert_eq!((&shown["tokens"], &shown["texts"]), (&1500.into(), &1.into()));
    // The four inputs of each of four layers, and that of the head.
    assert_eq!(shown["inputs"].as_array().unwrap().len(), 17);

    let plain = dir.path().join("plain.qsf");
    call(&model, &plain, "-q n3").run().ok();
    let by_file = dir.path().join("by-file.qsf");
    call(&model, &by_file, &format!("-q n3 --stats-in {}", stats.display())).run().ok();
    let (with, without) = (divergence(&by_file, &model), divergence(&plain, &model));
    assert!(with < 0.9 * without, "KLD {with} with statistics, {without} without");
    // Statistics given twice are those of a text read twice: nothing changes but what is recorded.
    let twice = dir.path().join("twice.qsf");
    let args = format!("-q n3 --stats-in {0} --stats-in {0}", stats.display());
    call(&model, &twice, &args).run().ok();
    assert!((divergence(&twice, &model) - with).abs() < 1e-3 * with);

    let other = dir.path().join("other");
    write_llama(&other, Size::TINY, 1);
    let args = format!("-q n3 --stats-in {}", stats.display());
    refused("another model", dir.path(), call(&other, &dir.path().join("no.qsf"), &args), 3, &["demo.stats"]);
}

#[test]
fn statistics_that_a_killed_conversion_wrote_are_whole_and_are_used_when_it_is_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let path = |name: &str| dir.path().join(name);
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 3000 -q n3");
    let with_stats = |out: &Path, stats: &Path| call(&model, out, &text).arg("--stats-out").arg(stats);
    let started = Instant::now();
    with_stats(&path("whole.qsf"), &path("whole.stats")).run().ok();
    let took = started.elapsed();
    let (out, stats) = (path("killed.qsf"), path("killed.stats"));
    for part in 2..=9u32 {
        let mut child = with_stats(&out, &stats).start();
        std::thread::sleep((took * part / 10).min(Duration::from_secs(5)));
        child.kill().unwrap();
        child.wait().unwrap();
        if out.exists() {
            break;
        }
    }
    if !out.exists() {
        let found = with_stats(&out, &stats).run();
        assert_eq!(found.code, 0, "{}", found.stderr);
    }
    assert!(
        fs::read(&stats).unwrap() == fs::read(path("whole.stats")).unwrap(),
        "other statistics after kills"
    );
    assert!(fs::read(&out).unwrap() == fs::read(path("whole.qsf")).unwrap(), "other bytes after kills");

    // Statistics that are there stand for the run that would make them again, and are left alone.
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let before = modified(&stats);
    with_stats(&path("again.qsf"), &stats).run().ok();
    assert_eq!(modified(&stats), before);
    assert!(fs::read(path("again.qsf")).unwrap() == fs::read(&out).unwrap());
    // Those of another text do not, nor does a part of a file.
    let other = format!(
        "--calibration {CALIBRATION} --calibration-tokens 2999 -q n3 --stats-out {}",
        stats.display()
    );
    refused(
        "another text",
        dir.path(),
        call(&model, &path("no.qsf"), &other),
        2,
        &["killed.stats", "exists"],
    );
    let bytes = fs::read(&stats).unwrap();
    fs::write(path("part.stats"), &bytes[..bytes.len() / 2]).unwrap();
    let part = with_stats(&path("no.qsf"), &path("part.stats"));
    refused("a part", dir.path(), part, 2, &["part.stats", "exists"]);
}

#[test]
fn tensors_that_no_small_type_has_the_range_for_count_at_their_real_size_under_a_target() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    let size = Size { layers: 3, hidden: 128, ffn: 384, vocab: 2048 };
    write_llama(&model, size, 5);
    let tokenizer = demo_model(&dir.path().join("tokenizer")).join("tokenizer.json");
    fs::copy(tokenizer, model.join("tokenizer.json")).unwrap();
    let mut weights = SafetensorsFile::of_model(&model);
    // Values whose scales leave f16: no block type can hold them. What reads their outputs is made small in turn.
    let wide = "model.layers.1.self_attn.v_proj.weight";
    weights.put(wide, &[size.hidden / 2, size.hidden], |i| 1e8 * ((i * 7919 % 201) as f32 - 100.0) / 100.0);
    let back = "model.layers.1.self_attn.o_proj.weight";
    weights.put(back, &[size.hidden, size.hidden], |i| 1e-9 * ((i * 104_729 % 201) as f32 - 100.0) / 100.0);
    weights.save();
    let out = dir.path().join("out.qsf");
    for bits in ["4.5", "5.5"] {
        let args = format!("--target-bpw {bits} --calibration-tokens 1500 --json --force");
        let report = call(&model, &out, &args).run().json();
        let found = report["bits_per_weight"].as_f64().unwrap();
        let asked: f64 = bits.parse().unwrap();
        assert!(found <= asked && found > 0.97 * asked, "{found} for {asked}");
        let tensors = report["tensors"].as_array().unwrap();
        let widened = tensors.iter().find(|t| t["layer"] == 1 && t["kind"] == "attn_v").unwrap();
        assert!(["bf16", "f32"].contains(&widened["type"].as_str().unwrap()), "{widened}");
    }
    program("qsf-inspect").arg(&out).arg("--verify").run().ok();
}

#[test]
fn a_dry_run_predicts_size_and_quality_and_its_plan_can_be_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (out, plan) = (dir.path().join("out.qsf"), dir.path().join("plan.json"));
    let dry =
        |args: &str| program("qsf-convert").arg(&model).args("--dry-run --json").args(args).run().json();
    let number =
        |value: &Value, field: &str| value[field].as_f64().unwrap_or_else(|| panic!("{field} in {value}"));
    // All but the digits of errors in META is known: these are of 38 tensors.
    let close = |predicted: f64, found: f64| predicted - found < 40.0 * 38.0 && found - predicted < 200.0;
    for args in ["-q 4bit", "-q 8bit --layout rows", "-q n3 --tensor-type attn_v=f32", "-q f16"] {
        let predicted = number(&dry(args), "predicted_file_bytes");
        let found = number(&call(&model, &out, args).args("--json --force").run().json(), "file_bytes");
        assert!(close(predicted, found), "{args}: {predicted} bytes predicted, {found} written");
    }
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 4096");
    let predicted = dry(&format!("--target-bpw 3.8 {text} --save-plan {}", plan.display()));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "the model, a file and the plan");
    let replay = format!("--plan {} --json --force", plan.display());
    let report = call(&model, &out, &replay).run().json();
    for (tensor, record) in
        predicted["tensors"].as_array().unwrap().iter().zip(report["tensors"].as_array().unwrap())
    {
        assert_eq!(tensor["type"], record["type"], "{tensor}");
    }
    let (expected, found) = (number(&predicted, "predicted_file_bytes"), number(&report, "file_bytes"));
    assert!(close(expected, found), "{expected} bytes predicted, {found} written");
    for (what, predicted) in [("target", predicted), ("type", dry(&format!("-q n3 {text}")))] {
        if what == "type" {
            call(&model, &out, &format!("-q n3 {text} --force")).run().ok();
        }
        let (expected, found) = (number(&predicted, "predicted_kld_mean"), divergence(&out, &model));
        // The text is an easier one than that of the calibration.
        assert!(
            expected < 2.5 * found && found < number(&predicted, "predicted_kld_high"),
            "{what}: KLD {expected} predicted, {found} measured"
        );
        assert!(number(&predicted, "predicted_kld_low") < expected, "{predicted}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_dry_run_predicts_the_peak_of_memory() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo_model(dir.path());
    let large = dir.path().join("large");
    write_llama(&large, Size { layers: 4, hidden: 512, ffn: 1536, vocab: 2048 }, 1);
    fs::copy(demo.join("tokenizer.json"), large.join("tokenizer.json")).unwrap();
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 1024");
    for (model, args) in
        [(&demo, text.clone()), (&large, "-q 4bit".to_owned()), (&large, format!("-q 4bit {text}"))]
    {
        let dry = program("qsf-convert").arg(model).args("--dry-run --json").args(&args).run().json();
        let predicted = dry["predicted_peak_rss_bytes"].as_u64().unwrap();
        let (output, peak) = call(model, &dir.path().join("out.qsf"), &args).args("--force").run_measured();
        output.ok();
        assert!(
            predicted < 2 * peak && peak < 2 * predicted,
            "{args}: {predicted} predicted, {peak} measured"
        );
    }
}
