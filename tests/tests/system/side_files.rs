//! Files that the programs keep beside an output: what somebody else has under one of their names stays as it was, a link there is
//! not followed, and a pipe is not waited for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use qsf_tests::*;
use serde_json::{Value, json};

const OWN: &str = "years of work";
const FITTED: &str = "--calibration text.txt --calibration-tokens 512";

/// A folder with a model, a text, a list of one job, and `own`, which is the user's.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        demo_model(desk.0.path());
        let text = fs::read_to_string(CALIBRATION).unwrap();
        fs::write(desk.path("text.txt"), &text[..20_000]).unwrap();
        let job = json!({ "model": "demo-1m", "output": "x.qsf", "quant": "n4" });
        fs::write(desk.path("jobs.jsonl"), format!("{job}\n")).unwrap();
        fs::write(desk.path("own"), OWN).unwrap();
        fs::create_dir(desk.path("out")).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn own(&self) -> String {
        fs::read_to_string(self.path("own")).unwrap()
    }

    fn pipe(&self, name: &str) {
        assert!(Command::new("mkfifo").arg(self.path(name)).status().unwrap().success());
    }

    /// A call that is ended if it waits for somebody, or takes the memory of the machine.
    fn call(&self, line: &str) -> Output {
        let (name, args) = line.split_once(' ').unwrap();
        let call = program(name).dir(self.0.path()).args(args);
        call.through_shell("ulimit -v 2000000; exec timeout 60 \"$@\"").run()
    }

    /// A call that says what is in the way.
    #[track_caller]
    fn refused(&self, line: &str, code: i32, says: &[&str]) {
        let output = self.call(line);
        assert_eq!(output.code, code, "{line}: {}", output.stderr);
        for part in says {
            assert!(output.stderr.contains(part), "{line}: {part:?} is not in: {}", output.stderr);
        }
    }

    /// And changes nothing.
    #[track_caller]
    fn stays(&self, line: &str, code: i32, says: &[&str]) {
        let before = Snapshot::of(self.0.path());
        self.refused(line, code, says);
        assert_eq!(before.changes(&Snapshot::of(self.0.path())), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn results_of_another_program_are_not_taken_for_those_of_a_batch() {
    let desk = Desk::new();
    for (text, line) in [
        ("{\"my\": \"results of another program\"}", "line 1"),
        ("{\"a\": 1}\n{\"precious\": \"last line\"}", "line 1"),
        ("notes that end in no line", "line 1"),
    ] {
        fs::write(desk.path("out/results.jsonl"), text).unwrap();
        let line = ["results.jsonl", line, "no record of a job"];
        desk.stays("qsf-convert --batch jobs.jsonl --out-dir out", 3, &line);
    }
    fs::remove_file(desk.path("out/results.jsonl")).unwrap();
    desk.refused("qsf-convert --batch jobs.jsonl --out-dir out", 0, &["done"]);
    // Behind records, too.
    let mut text = fs::read_to_string(desk.path("out/results.jsonl")).unwrap();
    text.push_str("{\"precious\": \"last line\"}");
    fs::write(desk.path("out/results.jsonl"), &text).unwrap();
    desk.stays("qsf-convert --batch jobs.jsonl --out-dir out", 3, &["results.jsonl", "line 2"]);
    fs::remove_file(desk.path("out/results.jsonl")).unwrap();
    symlink("/dev/zero", desk.path("out/results.jsonl")).unwrap();
    desk.refused("qsf-convert --batch jobs.jsonl --out-dir out", 2, &["results.jsonl", "a link"]);
    fs::rename(desk.path("out/results.jsonl"), desk.path("out/results-2.jsonl")).unwrap();
    desk.refused("qsf-convert --batch jobs.jsonl --out-dir out", 2, &["results-2.jsonl", "a device"]);
}

#[test]
fn a_folder_in_the_place_of_an_unfinished_one_keeps_its_files() {
    let desk = Desk::new();
    fs::create_dir(desk.path("hf.partial")).unwrap();
    fs::write(desk.path("hf.partial/thesis.docx"), OWN).unwrap();
    for force in ["", "--force"] {
        let line = format!("qsf-convert demo-1m hf --to hf {force}");
        desk.stays(&line, 2, &["hf.partial", ".lock", "move or remove it"]);
    }
    let line = "qsf-convert demo-1m hf.gguf --quant F16 --split-size 500kB";
    fs::rename(desk.path("hf.partial"), desk.path("hf.gguf.partial")).unwrap();
    desk.stays(line, 2, &["hf.gguf.partial", ".lock"]);
    // In our own place, a lock that leads elsewhere.
    fs::create_dir(desk.path("linked.partial")).unwrap();
    symlink("../own", desk.path("linked.partial/.lock")).unwrap();
    desk.stays("qsf-convert demo-1m linked --to hf", 2, &[".lock", "a link"]);
    assert_eq!(desk.own(), OWN);
}

#[test]
fn what_a_crash_left_of_a_directory_is_still_cleared() {
    let desk = Desk::new();
    fs::create_dir(desk.path("hf.partial")).unwrap();
    fs::write(desk.path("hf.partial/.lock"), "").unwrap();
    fs::write(desk.path("hf.partial/model.safetensors"), "half of it").unwrap();
    desk.call("qsf-convert demo-1m hf --to hf").ok();
    assert!(!desk.path("hf.partial").exists() && !desk.path("hf/.lock").exists());
    desk.call("qsf-convert hf hf.qsf --quant n4").ok();
}

#[test]
fn a_file_in_the_place_of_an_unfinished_one_stays() {
    let desk = Desk::new();
    desk.call("qsf-convert demo-1m a.qsf --quant 8bit").ok();
    let text = "--file text.txt -c 64 --chunks 1";
    for (line, name) in [
        ("qsf-convert demo-1m b.qsf", "b.qsf"),
        ("qsf-convert demo-1m b.gguf --quant F16", "b.gguf"),
        (&format!("qsf-convert demo-1m b.qsf {FITTED} --stats-out stats"), "stats"),
        (&format!("qsf-convert demo-1m b.qsf {FITTED} --save-plan plan.json"), "plan.json"),
        (&format!("qsf-eval a.qsf {text} --save-base base"), "base"),
        (&format!("qsf-eval a.qsf {text} --part 1/1 --part-out part"), "part"),
        ("qsf-run a.qsf -p Once --attention seen.safetensors", "seen.safetensors"),
        ("qsf-inspect report a.qsf --out report.html", "report.html"),
    ] {
        let partial = format!("{name}.partial");
        fs::write(desk.path(&partial), OWN).unwrap();
        for force in ["", " --force"] {
            desk.stays(
                &format!("{line}{force}"),
                2,
                &[&partial, "unfinished file of qsf", "move or remove it"],
            );
        }
        fs::remove_file(desk.path(&partial)).unwrap();
    }
}

#[test]
fn a_file_or_a_link_in_the_place_of_a_journal_stays_and_is_not_followed() {
    let desk = Desk::new();
    for (name, text) in [("o.qsf.journal", "text.txt"), ("o.qsf.text.journal", "self")] {
        let line = format!("qsf-convert demo-1m o.qsf --calibration {text} --calibration-tokens 512");
        for target in ["own", "nowhere"] {
            symlink(target, desk.path(name)).unwrap();
            for force in ["", " --force"] {
                desk.stays(&format!("{line}{force}"), 2, &[name, "a link", "remove it"]);
            }
            assert!(desk.path(name).is_symlink() && !desk.path("nowhere").exists());
            fs::remove_file(desk.path(name)).unwrap();
        }
        fs::write(desk.path(name), OWN).unwrap();
        for force in ["", " --force"] {
            desk.stays(&format!("{line}{force}"), 2, &[name, "no journal"]);
        }
        fs::remove_file(desk.path(name)).unwrap();
    }
    assert_eq!(desk.own(), OWN);
}

#[test]
fn a_pipe_in_the_place_of_a_side_file_is_not_waited_for() {
    let desk = Desk::new();
    desk.pipe("a.qsf.journal");
    desk.refused(&format!("qsf-convert demo-1m a.qsf {FITTED}"), 2, &["a.qsf.journal", "a pipe"]);
    desk.pipe("b.qsf.text.journal");
    let line = "qsf-convert demo-1m b.qsf --calibration self --calibration-tokens 512";
    desk.refused(line, 2, &["b.qsf.text.journal", "a pipe"]);
    // Without what the streams would save, the same file comes of it.
    desk.pipe("c.qsf.streams");
    desk.call(&format!("qsf-convert demo-1m c.qsf {FITTED}")).ok();
    desk.call(&format!("qsf-convert demo-1m d.qsf {FITTED}")).ok();
    assert!(fs::read(desk.path("c.qsf")).unwrap() == fs::read(desk.path("d.qsf")).unwrap());
    desk.pipe("e.qsf.partial");
    desk.refused("qsf-convert demo-1m e.qsf", 2, &["e.qsf.partial", "a pipe"]);
    desk.pipe("out/results.jsonl");
    desk.refused("qsf-convert --batch jobs.jsonl --out-dir out", 2, &["results.jsonl", "a pipe"]);
    desk.pipe("answers.jsonl");
    let line = "qsf-run c.qsf --prompts prompts.jsonl -n 2 --results answers.jsonl";
    fs::write(desk.path("prompts.jsonl"), "{\"prompt\": \"Once\"}\n").unwrap();
    desk.refused(line, 2, &["answers.jsonl", "a pipe"]);
}

#[test]
fn a_file_or_a_link_in_the_place_of_a_marker_is_no_marker() {
    let desk = Desk::new();
    let why = |says: &str| {
        desk.refused("qsf-convert --batch jobs.jsonl --out-dir out", 6, &[]);
        let records = fs::read_to_string(desk.path("out/results.jsonl")).unwrap();
        let record: Value = serde_json::from_str(records.lines().last().unwrap()).unwrap();
        assert_eq!((&record["state"], &record["exit_code"]), (&"failed".into(), &2.into()), "{record}");
        let error = record["error"].as_str().unwrap();
        assert!(error.contains("x.qsf.job") && error.contains(says), "{error}");
    };
    symlink("../own", desk.path("out/x.qsf.job")).unwrap();
    why("no regular file");
    assert_eq!(desk.own(), OWN);
    assert!(desk.path("out/x.qsf.job").is_symlink() && !desk.path("out/x.qsf").exists());
    fs::remove_file(desk.path("out/x.qsf.job")).unwrap();
    fs::write(desk.path("out/x.qsf.job"), OWN).unwrap();
    why("something in it");
    // And so it does not say that the output is ours.
    fs::write(desk.path("out/x.qsf"), OWN).unwrap();
    fs::remove_file(desk.path("out/results.jsonl")).unwrap();
    desk.refused("qsf-convert --batch jobs.jsonl --out-dir out", 2, &["x.qsf", "exists"]);
    for name in ["out/x.qsf", "out/x.qsf.job"] {
        assert_eq!(fs::read_to_string(desk.path(name)).unwrap(), OWN, "{name}");
    }
}

#[test]
fn an_input_without_an_end_is_not_read_to_its_end() {
    let desk = Desk::new();
    desk.refused("qsf-eval demo-1m --golden /dev/zero", 3, &["/dev/zero", "a regular file"]);
    let call = program("qsf-eval").args("--join /dev/zero");
    let output = call.through_shell("ulimit -v 1000000; exec timeout 60 \"$@\"").run();
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains("the start of the file"), "{}", output.stderr);
}
