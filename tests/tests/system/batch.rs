//! Batches of conversions: what they make is what single conversions make, they can be stopped, killed and started again, a mistake
//! in the list is found before anything is done, and one bad job does not spoil the others.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use qsf_tests::*;
use serde_json::{Value, json};

/// A folder with models, a list of jobs and an output folder `out`.
pub struct Place(pub tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn list(&self, jobs: &[Value]) {
        let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
        fs::write(self.path("jobs.jsonl"), lines).unwrap();
    }

    pub fn batch(&self, args: &str) -> Program {
        let call = program("qsf-convert").arg("--batch").arg(self.path("jobs.jsonl"));
        call.arg("--out-dir").arg(self.path("out")).args(args)
    }

    /// Runs the batch, which must end with `code`; the summary.
    #[track_caller]
    pub fn summary(&self, args: &str, code: i32) -> Value {
        let output = self.batch(args).args("--json").run();
        assert_eq!(output.code, code, "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// Lines of `results.jsonl`.
    pub fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("out/results.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Names in the output folder.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("out")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn states(summary: &Value) -> Vec<&str> {
    summary["jobs"].as_array().unwrap().iter().map(|job| job["state"].as_str().unwrap()).collect()
}

#[test]
fn a_batch_makes_the_files_of_single_conversions_and_skips_them_afterwards() {
    let place = Place::new();
    let demo = demo_model(place.0.path());
    write_llama(&place.path("llama"), Size::TINY, 1);
    write_gpt2(&place.path("gpt2"), Size::TINY, 2);
    let mut jobs = Vec::new();
    for model in ["demo-1m", "llama", "gpt2"] {
        for quant in ["4bit", "2bit", "n3", "f16"] {
            jobs.push(json!({ "model": model, "output": format!("{model}-{quant}.qsf"), "quant": quant }));
        }
    }
    jobs.push(json!({
        "model": "demo-1m", "output": "sub/fitted.qsf", "calibration": [TEXT], "calibration_tokens": 600,
        "tensor-type": ["ffn_down=8bit", "attn_v=6bit"], "eval_text": TEXT, "eval_chunks": 1, "max_kld": 9,
    }));
    place.list(&jobs);
    let first = place.summary("--jobs 2 --ram 2GB", 0);
    assert_eq!(first["done"], 13, "{first}");
    for job in &jobs[..12] {
        let single = place.path("single.qsf");
        let quant = job["quant"].as_str().unwrap();
        let call = program("qsf-convert").arg(place.path(job["model"].as_str().unwrap())).arg(&single);
        call.args("--force -q").arg(quant).run().ok();
        let output = place.path("out").join(job["output"].as_str().unwrap());
        assert!(fs::read(output).unwrap() == fs::read(&single).unwrap(), "{job}");
    }
    let single = place.path("single.qsf");
    let call = program("qsf-convert").arg(&demo).arg(&single).args("--force --calibration").arg(TEXT);
    let call = call.args("--calibration-tokens 600 --tensor-type ffn_down=8bit --tensor-type attn_v=6bit");
    call.arg("--eval").arg(TEXT).args("--eval-chunks 1").run().ok();
    assert!(fs::read(place.path("out/sub/fitted.qsf")).unwrap() == fs::read(&single).unwrap());
    let records = place.records();
    assert_eq!(records.len(), 13, "one record a job");
    for record in &records {
        assert_eq!(record["state"], "done");
        let file = place.path("out").join(record["output"].as_str().unwrap());
        assert_eq!(record["file_bytes"], fs::metadata(file).unwrap().len());
        assert!(record["bits_per_weight"].as_f64().unwrap() > 2.0, "{record}");
        assert_eq!(record["sha256"].as_str().unwrap().len(), 64);
    }
    let fitted = records.iter().find(|record| record["output"] == "sub/fitted.qsf").unwrap();
    assert!(fitted["kld_mean"].as_f64().unwrap() < 1.0 && fitted["ppl"].as_f64().unwrap() > 20.0, "{fitted}");
    let left: Vec<String> = place.names().into_iter().filter(|name| !name.ends_with(".qsf")).collect();
    assert_eq!(left, ["results.jsonl", "sub"]);

    let started = Instant::now();
    let second = place.summary("", 0);
    assert_eq!(second["skipped"], 13, "{second}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(place.records().len(), 13);
}

/// Linux takes any bytes as names.
#[cfg(target_os = "linux")]
#[test]
fn folders_whose_names_are_no_text_are_as_good_as_others() {
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    let folder = place.0.path().join(std::ffi::OsStr::from_bytes(b"o\xffut"));
    fs::create_dir(&folder).unwrap();
    demo_model(&folder);
    let list = folder.join("jobs.jsonl");
    fs::write(
        &list,
        json!({ "model": "demo-1m", "output": "demo.qsf", "eval_text": TEXT, "eval_chunks": 1 }).to_string(),
    )
    .unwrap();
    for skipped in [false, true] {
        let call = program("qsf-convert").arg("--batch").arg(&list).arg("--out-dir").arg(folder.join("out"));
        let output = call.args("--json").run();
        assert_eq!(output.code, 0, "{}", output.stderr);
        let summary: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(summary["jobs"][0]["skipped"], skipped, "{summary}");
    }
    assert!(folder.join("out/demo.qsf").is_file());
}

/// A model may be on its way still, or gone since its file was made: neither costs the work of the other jobs.
#[test]
fn a_missing_model_or_text_fails_its_own_job_and_costs_no_file() {
    let place = Place::new();
    demo_model(place.0.path());
    write_llama(&place.path("gone"), Size::TINY, 1);
    place.list(&[json!({ "model": "gone", "output": "made.qsf" })]);
    place.summary("", 0);
    let made = fs::read(place.path("out/made.qsf")).unwrap();
    fs::rename(place.path("gone"), place.path("elsewhere")).unwrap();
    place.list(&[
        json!({ "model": "gone", "output": "made.qsf" }),
        json!({ "model": "demo-1m", "output": "textless.qsf", "eval_text": "no.txt" }),
        json!({ "model": "demo-1m", "output": "good.qsf" }),
    ]);
    let dry = place.summary("--dry-run", 6);
    assert_eq!(states(&dry), ["fails", "fails", "to_do"]);
    let found = place.summary("", 6);
    assert_eq!(states(&found), ["failed", "failed", "done"], "{found}");
    let error = |i: usize| found["jobs"][i]["error"].as_str().unwrap().to_owned();
    assert!(error(0).contains("there is no file or folder 'gone'"), "{found}");
    assert!(error(1).contains("--eval 'no.txt': there is no such file"), "{found}");
    assert_eq!(found["jobs"][0]["exit_code"], 3);
    assert!(fs::read(place.path("out/made.qsf")).unwrap() == made, "a file was lost with its model");
    // The model is back: its file is as good as before.
    fs::rename(place.path("elsewhere"), place.path("gone")).unwrap();
    place.list(&[json!({ "model": "gone", "output": "made.qsf" })]);
    assert_eq!(states(&place.summary("", 0)), ["done"]);
    assert!(fs::read(place.path("out/made.qsf")).unwrap() == made);
}

#[test]
fn a_dry_run_says_what_is_to_be_done_with_its_memory_and_makes_nothing() {
    let place = Place::new();
    demo_model(place.0.path());
    fs::create_dir(place.path("broken")).unwrap();
    fs::write(place.path("broken/config.json"), "{}").unwrap();
    let job = |model: &str, output: &str| json!({ "model": model, "output": output });
    let mut jobs = vec![job("demo-1m", "a.qsf"), job("demo-1m", "b.qsf")];
    place.list(&jobs[..1]);
    let done = place.summary("", 0);
    let before = place.names();
    jobs[1]["threads"] = json!(3);
    jobs.push(job("demo-1m", "c.qsf"));
    place.list(&jobs);
    let found = place.summary("--dry-run --threads 4", 0);
    assert_eq!(states(&found), ["skipped", "to_do", "to_do"]);
    assert_eq!((&found["jobs"][1]["threads"], &found["jobs"][2]["threads"]), (&json!(3), &json!(2)));
    let predicted = found["jobs"][2]["predicted_peak_rss_bytes"].as_u64().unwrap();
    let peak = done["jobs"][0]["peak_rss_bytes"].as_u64().unwrap();
    assert!((peak..4 * peak).contains(&predicted), "{predicted} for {peak}");
    jobs.push(job("broken", "d.qsf"));
    place.list(&jobs);
    let found = place.summary("--dry-run", 6);
    assert_eq!(states(&found)[3], "fails");
    assert!(found["jobs"][3]["error"].as_str().unwrap().contains("broken"), "{found}");
    assert_eq!(place.names(), before, "nothing was made");
    let shown = place.batch("--dry-run").run();
    assert!(
        shown.stdout.contains("4 jobs: 2 to do") && shown.stdout.contains("d.qsf (line 4): exit code"),
        "{}",
        shown.stdout
    );
}

#[test]
fn what_has_changed_is_done_again_and_nothing_else() {
    let place = Place::new();
    write_llama(&place.path("a"), Size::TINY, 1);
    demo_model(place.0.path());
    fs::copy(TEXT, place.path("text.txt")).unwrap();
    let job = |quant: &str| {
        [
            json!({ "model": "a", "output": "a.qsf", "quant": quant }),
            json!({ "model": "demo-1m", "output": "b.qsf", "eval": "text.txt", "eval_chunks": 1 }),
        ]
    };
    place.list(&job("4bit"));
    let skipped = |expected: [bool; 2]| {
        let summary = place.summary("", 0);
        let found = summary["jobs"].as_array().unwrap().iter().map(|job| job["skipped"] == true);
        assert_eq!(found.collect::<Vec<_>>(), expected);
    };
    skipped([false, false]);
    skipped([true, true]);
    place.list(&job("3bit"));
    skipped([false, true]);
    // Other weights of the same size.
    write_llama(&place.path("a"), Size::TINY, 7);
    skipped([false, true]);
    fs::write(place.path("text.txt"), fs::read_to_string(TEXT).unwrap().replace('.', "!")).unwrap();
    skipped([true, false]);
    // Bytes that are unchanged count as such at another time; the new time is kept, so that it is hashed only once.
    let weights = place.path("a/model.safetensors");
    fs::write(&weights, fs::read(&weights).unwrap()).unwrap();
    let before = place.records().len();
    skipped([true, true]);
    assert_eq!(place.records().len(), before + 1);
    skipped([true, true]);
    assert_eq!(place.records().len(), before + 1);
    // A file that is no longer what was written.
    let out = place.path("out/a.qsf");
    let whole = fs::read(&out).unwrap();
    fs::write(&out, &whole[..whole.len() - 1]).unwrap();
    skipped([false, true]);
    assert!(fs::read(&out).unwrap() == whole);
    fs::remove_file(&out).unwrap();
    skipped([false, true]);
    assert!(fs::read(&out).unwrap() == whole);
}

#[test]
fn bad_jobs_fail_with_their_reasons_and_the_others_are_done() {
    let place = Place::new();
    for name in ["good", "cut", "nan"] {
        write_llama(&place.path(name), Size::TINY, 1);
    }
    demo_model(place.0.path());
    let weights = place.path("cut/model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    let mut broken = SafetensorsFile::of_model(&place.path("nan"));
    broken.set("model.layers.1.mlp.down_proj.weight", 5, f32::NAN);
    broken.save();
    place.list(&[
        json!({ "model": "good", "output": "1.qsf" }),
        json!({ "model": "cut", "output": "2.qsf" }),
        json!({ "model": "nan", "output": "3.qsf" }),
        json!({ "model": "demo-1m", "output": "4.qsf", "quant": "2bit", "eval_text": TEXT, "eval_chunks": 1, "max_kld": 0.01 }),
        json!({ "model": "demo-1m", "output": "5.qsf", "max_size": "1kB" }),
        json!({ "model": "good", "output": "6.qsf", "quant": "8bit" }),
    ]);
    let summary = place.summary("", 6);
    assert_eq!(states(&summary), ["done", "failed", "failed", "rejected", "rejected", "done"]);
    let jobs = &summary["jobs"];
    let error = |i: usize| jobs[i]["error"].as_str().unwrap();
    assert!(error(1).contains("model.safetensors") && jobs[1]["exit_code"] == 3, "{}", error(1));
    assert!(error(2).contains("row") && error(2).contains("NaN"), "{}", error(2));
    assert!(error(3).contains("--max-kld") && error(4).contains("--max-size"), "{} {}", error(3), error(4));
    let expected = ["1.qsf", "4.rejected.qsf", "5.rejected.qsf", "6.qsf", "results.jsonl"];
    assert_eq!(place.names(), expected);
    let table = place.batch("").run();
    assert_eq!(table.code, 6);
    assert!(table.stdout.contains("2.qsf (line 2): failed, exit code 3: "), "{}", table.stdout);
    assert!(table.stderr.contains("error: 4 of 6 jobs failed"), "{}", table.stderr);
    // What missed its limits would miss them again.
    assert_eq!(place.records().len(), 6 + 2, "only the failed ones were tried again");
    // A looser limit: the file gets its name, and the rejected one goes.
    place.list(&[json!({ "model": "demo-1m", "output": "5.qsf", "max_size": "1MB" })]);
    place.summary("", 0);
    assert!(place.path("out/5.qsf").is_file() && !place.path("out/5.rejected.qsf").exists());
    place
        .list(&[json!({ "model": "cut", "output": "2.qsf" }), json!({ "model": "good", "output": "7.qsf" })]);
    let summary = place.summary("--fail-fast --jobs 1", 6);
    assert_eq!(states(&summary), ["failed", "not_started"]);
}

#[test]
fn a_single_conversion_knows_limits_as_well() {
    let place = Place::new();
    let model = demo_model(place.0.path());
    let call = |limit: &str| {
        let call =
            program("qsf-convert").arg(&model).arg(place.path("a.qsf")).args("-q 2bit --eval").arg(TEXT);
        call.args("--eval-chunks 1").args(limit).run()
    };
    let missed = call("--max-ppl-increase 5%");
    assert_eq!(missed.code, 6, "{}", missed.stderr);
    assert!(missed.stderr.contains("a.rejected.qsf") && missed.stderr.contains("--max-ppl-increase"));
    assert!(!place.path("a.qsf").exists() && place.path("a.rejected.qsf").is_file());
    assert_eq!(call("--max-ppl-increase 5%").code, 2, "the rejected file is not replaced without --force");
    call("--force --max-ppl-increase 99999%").ok();
    assert!(place.path("a.qsf").is_file());
}

#[test]
fn shards_share_the_jobs_and_a_job_larger_than_the_memory_is_refused() {
    let place = Place::new();
    write_llama(&place.path("m"), Size::TINY, 1);
    let jobs: Vec<Value> = (0..5)
        .map(|i| json!({ "model": "m", "output": format!("{i}.qsf"), "block_size": 32 << (i % 4) }))
        .collect();
    place.list(&jobs);
    let outputs = |summary: &Value| -> Vec<String> {
        let jobs = summary["jobs"].as_array().unwrap().iter();
        jobs.map(|job| job["output"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(outputs(&place.summary("--shard 1/2", 0)), ["0.qsf", "2.qsf", "4.qsf"]);
    assert_eq!(outputs(&place.summary("--shard 2/2", 0)), ["1.qsf", "3.qsf"]);
    let all = place.summary("", 0);
    assert_eq!(all["skipped"], 5, "{all}");
    place.list(&[json!({ "model": "m", "output": "x.qsf" })]);
    let summary = place.summary("--ram 1MB", 6);
    assert_eq!(summary["jobs"][0]["exit_code"], 5, "{summary}");
    assert!(summary["jobs"][0]["error"].as_str().unwrap().contains("--ram"), "{summary}");
}

#[cfg(unix)]
mod signals {
    use std::process::{Child, Command};

    use super::*;

    fn signal(child: &Child, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
    }

    #[track_caller]
    fn wait_for(child: &mut Child, ready: impl Fn() -> bool) {
        let started = Instant::now();
        while !ready() {
            assert_eq!(child.try_wait().unwrap(), None);
            assert!(started.elapsed() < Duration::from_secs(60));
            sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_batch_that_is_told_to_stop_does_so_and_goes_on_where_it_was() {
        let place = Place::new();
        demo_model(place.0.path());
        write_llama(&place.path("m"), Size::TINY, 1);
        let slow = json!({ "model": "demo-1m", "output": "slow.qsf", "calibration": TEXT, "calibration_tokens": 3000 });
        place.list(&[json!({ "model": "m", "output": "quick.qsf" }), slow]);
        let journal = place.path("out/slow.qsf.journal");
        let mut child = place.batch("--jobs 1").start();
        wait_for(&mut child, || fs::metadata(&journal).is_ok_and(|m| m.len() > 1000));
        let second = place.batch("").run();
        assert_eq!(second.code, 3, "{}", second.stderr);
        assert!(second.stderr.contains("another qsf-convert --batch is writing here"), "{}", second.stderr);
        let told = Instant::now();
        signal(&child, "TERM");
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
        assert_eq!(place.names(), ["quick.qsf", "results.jsonl", "slow.qsf.job", "slow.qsf.journal"]);
        let output = place.batch("").run();
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(output.stderr.contains("going on from"), "{}", output.stderr);
        assert_eq!(place.names(), ["quick.qsf", "results.jsonl", "slow.qsf"]);
        let single = place.path("single.qsf");
        let call = program("qsf-convert").arg(place.path("demo-1m")).arg(&single);
        call.args("--calibration-tokens 3000 --calibration").arg(TEXT).run().ok();
        assert!(fs::read(place.path("out/slow.qsf")).unwrap() == fs::read(single).unwrap());
    }

    #[test]
    fn a_job_without_a_text_that_is_killed_goes_on_with_the_tensors_that_are_not_done() {
        let place = Place::new();
        demo_model(place.0.path());
        // The slowest search that needs no text.
        place.list(&[json!({ "model": "demo-1m", "output": "slow.qsf", "quant": "t3" })]);
        let journal = place.path("out/slow.qsf.journal");
        let mut child = place.batch("-t 1").start();
        wait_for(&mut child, || fs::metadata(&journal).is_ok_and(|m| m.len() > 150_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let output = place.batch("").run();
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(output.stderr.contains("going on from"), "{}", output.stderr);
        assert_eq!(place.names(), ["results.jsonl", "slow.qsf"]);
        let single = place.path("single.qsf");
        program("qsf-convert").arg(place.path("demo-1m")).arg(&single).args("--quant t3").run().ok();
        assert!(fs::read(place.path("out/slow.qsf")).unwrap() == fs::read(single).unwrap());
    }

    #[test]
    fn a_batch_that_is_killed_over_and_over_makes_the_same_files() {
        let place = Place::new();
        demo_model(place.0.path());
        let mut jobs: Vec<Value> = ["2bit", "3bit", "4bit", "8bit", "n2", "n3", "6bit", "f16"]
            .iter()
            .map(|quant| json!({ "model": "demo-1m", "output": format!("{quant}.qsf"), "quant": quant }))
            .collect();
        jobs.push(json!({ "model": "demo-1m", "output": "fitted.qsf", "calibration": TEXT, "calibration_tokens": 600 }));
        place.list(&jobs);
        place.summary("", 0);
        let whole = |place: &Place| -> Vec<Vec<u8>> {
            jobs.iter()
                .map(|job| fs::read(place.path("out").join(job["output"].as_str().unwrap())).unwrap())
                .collect()
        };
        let undisturbed = whole(&place);
        fs::remove_dir_all(place.path("out")).unwrap();
        for kill in 0..12 {
            let mut child = place.batch("--jobs 2").start();
            sleep(Duration::from_millis(40 + 37 * kill % 210));
            // It may be over by now.
            let _ = child.kill();
            child.wait().unwrap();
            for path in
                fs::read_dir(place.path("out")).into_iter().flatten().map(|entry| entry.unwrap().path())
            {
                if path.extension().is_some_and(|extension| extension == "qsf") {
                    program("qsf-inspect").arg(&path).arg("--verify").run().ok();
                }
            }
        }
        place.summary("", 0);
        assert!(whole(&place) == undisturbed);
        let left: Vec<String> = place.names().into_iter().filter(|name| !name.ends_with(".qsf")).collect();
        assert_eq!(left, ["results.jsonl"]);
    }
}
