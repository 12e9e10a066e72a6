//! Jobs that take more than was predicted, played by scripts that say what conversions say. Only Linux tells of memory.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Says that it needs a megabyte. A large one takes up to a gigabyte instead, as long as the file `OUT.calm` is not there:
/// tail(1) keeps the line that never ends. It waits a little for the small one, beside which it is too large.
fn grows(folder: &Path) -> Program {
    let script = r#"#!/bin/sh
for out; do :; done
echo '{"needs":{"bytes":1000000}}'
read word
[ "$word" = go ] || exit 130
echo "$word" >> "$out.begun"
case "$out" in
    *large*) for i in 1 2 3 4 5 6 7 8 9 10; do [ -e "${out%/*}/small.qsf.begun" ] || sleep 0.1; done
             [ -e "$out.calm" ] || { : > "$out.calm"; ulimit -v 1000000; exec tail /dev/zero; } ;;
    *) sleep 2 ;;
esac
echo '{"stopped":{"error":"played","exit_code":3,"may_pass":false,"peak_rss_bytes":null}}'
exit 3
"#;
    let path = folder.join("job.sh");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Program { path, first: Vec::new() }
}

fn job(line: usize, output: &str) -> BatchJob {
    BatchJob {
        line,
        model: "m".into(),
        model_path: None,
        output: output.into(),
        also_written: Vec::new(),
        options: Vec::new(),
        settings: BTreeMap::new(),
        inputs: Vec::new(),
        missing: Vec::new(),
        force: false,
        threads: Some(1),
    }
}

/// The record of each of `outputs`, of a batch that has 100 MB.
fn records(folder: &Path, outputs: &[&str]) -> Vec<Record> {
    let settings = Settings {
        out_dir: folder.to_owned(),
        folder: folder.to_owned(),
        program: grows(folder),
        most_jobs: 2,
        cores: 2,
        budget: Budget::of(100_000_000),
        retry: 0,
        fail_fast: false,
    };
    let jobs: Vec<BatchJob> = (1..).zip(outputs).map(|(line, output)| job(line, output)).collect();
    let cancel = Cancel::default();
    let schedule = Schedule::new(&settings, &jobs, Results::known(None), Watch::silent(), &cancel);
    let outcomes = schedule.run().unwrap();
    outcomes.iter().map(|outcome| outcome.record().unwrap().clone()).collect()
}

#[test]
fn a_job_that_grows_beyond_its_share_is_done_when_the_others_are() {
    let dir = tempfile::tempdir().unwrap();
    let found = records(dir.path(), &["large.qsf", "small.qsf"]);
    for record in &found {
        assert_eq!((record.error.as_deref(), record.exit_code), (Some("played"), 3), "{record:?}");
    }
    let begun = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(begun("large.qsf.begun"), "go\ngo\n", "it was not put off");
    assert_eq!(begun("small.qsf.begun"), "go\n");
    assert!(found[0].ended_ms >= found[1].ended_ms, "it did not wait: {found:?}");
}

#[test]
fn a_job_that_grows_beyond_all_there_is_fails_and_does_not_take_the_machine_along() {
    let dir = tempfile::tempdir().unwrap();
    let found = records(dir.path(), &["large.qsf"]);
    let error = found[0].error.as_deref().unwrap_or_default();
    assert_eq!(found[0].exit_code, Failure::OutOfSpace.exit_code(), "{error}");
    assert!(error.contains("it has grown to") && error.contains("--ram"), "{error}");
}
