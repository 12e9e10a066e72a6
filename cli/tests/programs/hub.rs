//! The whole way: `qsf-convert org/name` against a hub that serves the built-in model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::fake_hub::{FakeHub, MAIN, weights};
use crate::server::Answer;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/demo-1m");

fn demo_hub() -> FakeHub {
    let files = [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    FakeHub::new(&files.map(|name| (name, fs::read(Path::new(DEMO).join(name)).unwrap())))
}

/// `qsf-convert` in `dir`, with nothing of this machine's own settings.
fn convert(hub: &FakeHub, dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qsf-convert"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_lowercase();
        if text.starts_with("hf_") || text.ends_with("_proxy") || text == "ssl_cert_file" {
            command.env_remove(name);
        }
    }
    command.args(args).current_dir(dir).env("HF_HOME", hub.home()).env("HF_ENDPOINT", &hub.hub.url);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_model_of_the_hub_becomes_the_file_that_its_folder_becomes() {
    let hub = demo_hub();
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = run(convert(&hub, dir.path(), &["org/name", "--json", "-q"]));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&report["model"], &report["path"]), (&"name".into(), &"name-n4.qsf".into()));

    let (code, _, stderr) = run(convert(&hub, dir.path(), &[DEMO, "local.qsf", "-q"]));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let read = |name| fs::read(dir.path().join(name)).unwrap();
    assert!(read("name-n4.qsf") == read("local.qsf"), "the same files give the same bytes");

    hub.hub.forget();
    let (code, _, stderr) = run(convert(&hub, dir.path(), &["org/name"]));
    assert_eq!(code, Some(2), "the output exists: {stderr}");
    assert_eq!(hub.hub.asked().len(), 0, "which is said before anything is downloaded");

    let mut offline = convert(&hub, dir.path(), &["hf://org/name", "offline.qsf", "--revision", MAIN]);
    offline.env("HF_HUB_OFFLINE", "1");
    assert_eq!(run(offline).0, Some(0));
    assert!(read("offline.qsf") == read("local.qsf"));
    assert_eq!(hub.hub.asked().len(), 0);
}

#[test]
fn jobs_of_a_batch_name_models_of_the_hub() {
    let hub = demo_hub();
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("jobs.jsonl");
    let jobs = |missing: &str| {
        let job = |model: &str, output: &str, quant: &str| {
            format!("{{\"model\": \"{model}\", \"output\": \"{output}.qsf\", \"quant\": \"{quant}\"}}\n")
        };
        // Two of one model, which is downloaded while neither has it.
        let jobs = [job("org/name", "a", "4bit"), job("hf://org/name", "b", "2bit"), missing.to_owned()];
        fs::write(&list, jobs.concat()).unwrap();
    };
    let batch =
        || run(convert(&hub, dir.path(), &["--batch", "jobs.jsonl", "--out-dir", "out", "--jobs", "2"]));
    jobs("{\"model\": \"org/name@v2\", \"output\": \"c.qsf\"}\n");
    let (code, stdout, stderr) = batch();
    assert_eq!(code, Some(6), "v2 is not there: {stderr}");
    assert!(stdout.contains("c.qsf") && stdout.contains("not found"), "{stdout}");
    assert!(stderr.contains("error: 1 of 3 jobs failed"), "{stdout}\n{stderr}");
    assert!(!dir.path().join("out/c.qsf").exists());
    for (name, quant) in [("a", "4bit"), ("b", "2bit")] {
        let (code, _, stderr) = run(convert(&hub, dir.path(), &[DEMO, "local.qsf", "--quant", quant, "-f"]));
        assert_eq!(code, Some(0), "{stderr}");
        let made = fs::read(dir.path().join("out").join(name).with_extension("qsf")).unwrap();
        assert!(made == fs::read(dir.path().join("local.qsf")).unwrap(), "{name}");
    }

    jobs("");
    hub.hub.forget();
    hub.storage.forget();
    let (code, _, stderr) = batch();
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stderr.matches("done already").count(), 2, "{stderr}");
    assert_eq!(hub.hub.asked().len() + hub.storage.asked().len(), 0, "what is done needs no network");
    // Another content of a file in the cache is another model.
    let weights = hub.repo().join("snapshots").join(MAIN).join("model.safetensors").canonicalize().unwrap();
    fs::write(&weights, b"damaged").unwrap();
    let (code, _, stderr) = batch();
    assert_eq!(code, Some(0), "it is noticed, downloaded and done again: {stderr}");
    assert!(!stderr.contains("done already") && stderr.contains("instead of"), "{stderr}");
}

#[test]
fn exit_codes_tell_what_kind_of_failure_it_was() {
    let hub = demo_hub();
    let dir = tempfile::tempdir().unwrap();
    let fails = |args: &[&str], expected: i32, says: &str| {
        let (code, stdout, stderr) = run(convert(&hub, dir.path(), args));
        assert_eq!((code, stdout.as_str()), (Some(expected), ""), "{args:?}: {stderr}");
        assert!(stderr.contains(says) && stderr.contains("error: "), "{args:?}: {stderr}");
    };
    fails(&["org/name@../x"], 2, "a branch, a tag or a commit");
    fails(&["org/name@main", "--revision", "v2"], 2, "one revision");
    fails(&[DEMO, "--revision", "v2"], 2, "is a path");
    fails(&["org/name@v2"], 3, "not found");
    fails(&["org/name:x.gguf"], 3, "x.gguf");
    hub.manners.lock().unwrap().files = Some(Answer::new(401, "").with("x-error-code", "GatedRepo"));
    fails(&["org/name"], 3, "HF_TOKEN");
    hub.manners.lock().unwrap().files = None;
    hub.manners.lock().unwrap().damage = true;
    fails(&["org/name"], 3, "damaged");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no output, whole or partial");
}

/// The one unfinished file of the cache.
fn unfinished(hub: &FakeHub) -> Option<(PathBuf, u64)> {
    let entries = fs::read_dir(hub.repo().join("blobs")).ok()?;
    let path =
        entries.map(|e| e.unwrap().path()).find(|p| p.extension().is_some_and(|e| e == "incomplete"))?;
    let len = path.metadata().ok()?.len();
    Some((path, len))
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_what_the_next_run_goes_on_with() {
    let hub = demo_hub();
    let dir = tempfile::tempdir().unwrap();
    hub.manners.lock().unwrap().silent_after = Some(500_000);
    let mut child = convert(&hub, dir.path(), &["org/name"]).spawn().unwrap();
    let started = Instant::now();
    while unfinished(&hub).is_none_or(|(_, len)| len < 500_000) {
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", unfinished(&hub));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let told = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(told.elapsed() < Duration::from_secs(5));
    hub.manners.lock().unwrap().silent_after = None;
    hub.storage.forget();
    let (code, _, stderr) = run(convert(&hub, dir.path(), &["org/name", "-q"]));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(hub.ranges()[0], Some(500_000));
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_its_own_exit_code() {
    let hub = demo_hub();
    let dir = tempfile::tempdir().unwrap();
    // A file size limit fails writes as a full disk does; 1000 blocks are less than the weights in every shell's blocks.
    let inner = convert(&hub, dir.path(), &["org/name"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$@\"", "sh"])
        .arg(inner.get_program())
        .args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let (code, _, stderr) = run({
        shell.current_dir(dir.path());
        shell
    });
    assert_eq!(code, Some(5), "{stderr}");
    let (path, len) = unfinished(&hub).unwrap();
    assert!(stderr.contains(&path.display().to_string()) && len > 0, "{stderr}");
    assert_eq!(run(convert(&hub, dir.path(), &["org/name"])).0, Some(0), "with space again, it goes on");
}

#[test]
fn a_gated_model_needs_the_token_which_is_read_from_the_file() {
    let hub = FakeHub::new(&[("m.gguf", weights(5000))]);
    fs::write(hub.home().join("token"), "hf_secret\n").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (code, _, stderr) = run(convert(&hub, dir.path(), &["org/name"]));
    // What was downloaded is no model, which is found where files are opened.
    assert!(matches!(code, Some(3 | 4)) && stderr.contains("m.gguf"), "{stderr}");
    assert!(!stderr.contains("secret"), "{stderr}");
    assert!(hub.hub.asked().iter().all(|r| r.header("authorization") == Some("Bearer hf_secret")));
    assert!(hub.storage.asked().iter().all(|r| r.header("authorization").is_none()));
}
