//! `--upload` against a hub that takes what is sent.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::upload_hub::{TOKEN, UploadHub};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/demo-1m");

/// `program` in `dir`, with the token and nothing of this machine's own settings.
fn run(
    program: &str,
    hub: &UploadHub,
    dir: &Path,
    args: &[&str],
    more: &[(&str, &str)],
) -> (i32, String, String) {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_lowercase();
        if text.starts_with("hf_") || text.ends_with("_proxy") || text == "ssl_cert_file" {
            command.env_remove(name);
        }
    }
    command.args(args).current_dir(dir).env("HF_HOME", dir.join("home")).env("HF_ENDPOINT", &hub.hub.url);
    command.env("HF_TOKEN", TOKEN).envs(more.iter().copied());
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let said = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(!said.0.contains(TOKEN) && !said.1.contains(TOKEN), "{said:?}");
    (status.code().unwrap(), said.0, said.1)
}

const CONVERT: &str = env!("CARGO_BIN_EXE_qsf-convert");
const INSPECT: &str = env!("CARGO_BIN_EXE_qsf-inspect");

#[test]
fn a_conversion_is_in_the_repository_with_its_page_and_its_card() {
    let (hub, dir) = (UploadHub::new(), tempfile::tempdir().unwrap());
    let upload = |args: &[&str]| run(CONVERT, &hub, dir.path(), args, &[]);
    let first = [DEMO, "a.qsf", "-q", "4bit", "--upload", "org/name", "--private", "--json"];
    let (code, stdout, stderr) = upload(&first);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let said: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(said["uploaded"]["files"], serde_json::json!(["a.qsf", "report.html", "README.md"]));
    {
        let mut state = hub.state.lock().unwrap();
        assert_eq!((state.commits, state.private), (1, Some(true)));
        assert!(state.files["a.qsf"] == fs::read(dir.path().join("a.qsf")).unwrap());
        assert!(state.files["report.html"].starts_with(b"<!DOCTYPE html>"));
        assert!(state.files["README.md"].starts_with(b"---\nlibrary_name: qsf"));
        // Somebody writes a card.
        state.files.insert("README.md".into(), b"mine".to_vec());
    }
    // A name that is taken is found before the work.
    fs::remove_file(dir.path().join("a.qsf")).unwrap();
    let (code, _, stderr) = upload(&[DEMO, "a.qsf", "--upload", "org/name"]);
    assert!(code == 2 && stderr.contains("a.qsf") && stderr.contains("--force"), "{stderr}");
    assert!(!dir.path().join("a.qsf").exists());
    let (code, stdout, stderr) = upload(&[DEMO, "a.qsf", "-q", "3bit", "--upload", "org/name", "--force"]);
    assert!(code == 0 && stdout.contains("/org/name: a.qsf, report.html uploaded"), "{stdout}{stderr}");
    let state = hub.state.lock().unwrap();
    assert!(state.files["a.qsf"] == fs::read(dir.path().join("a.qsf")).unwrap());
    assert_eq!(state.files["README.md"], b"mine", "a card that is there stays");
}

#[test]
fn an_upload_that_fails_leaves_the_file_and_says_how_it_goes_on() {
    let (hub, dir) = (UploadHub::new(), tempfile::tempdir().unwrap());
    hub.state.lock().unwrap().repo_exists = true;
    hub.state.lock().unwrap().read_only = true;
    let convert = |more: &[(&str, &str)]| {
        run(CONVERT, &hub, dir.path(), &[DEMO, "a.qsf", "-f", "--upload", "org/name"], more)
    };
    let (code, _, stderr) = convert(&[]);
    assert!(code == 3 && stderr.contains("HF_TOKEN"), "{stderr}");
    assert!(stderr.contains("qsf-inspect report a.qsf -o report.html --upload org/name"), "{stderr}");
    assert!(dir.path().join("a.qsf").exists());
    fs::remove_file(dir.path().join("a.qsf")).unwrap();
    for (name, value) in [("HF_HUB_OFFLINE", "1"), ("HF_TOKEN", "")] {
        let (code, _, stderr) = convert(&[(name, value)]);
        assert!(code == 2 && stderr.contains("org/name"), "{name}: {stderr}");
        assert!(!dir.path().join("a.qsf").exists(), "{name}: found before the work");
    }
    let args = [DEMO, "a.qsf", "--upload", "org/name", "--untrusted"];
    let (code, _, stderr) = run(CONVERT, &hub, dir.path(), &args, &[]);
    assert!(code == 2 && stderr.contains("--untrusted"), "{stderr}");
}

#[test]
fn several_files_go_there_with_one_page() {
    let (hub, dir) = (UploadHub::new(), tempfile::tempdir().unwrap());
    for quant in ["4bit", "3bit"] {
        let (code, ..) = run(CONVERT, &hub, dir.path(), &[DEMO, &format!("{quant}.qsf"), "-q", quant], &[]);
        assert_eq!(code, 0);
    }
    let args = [
        "report",
        "4bit.qsf",
        "3bit.qsf",
        "-o",
        "page.html",
        "--base-model",
        "x/demo",
        "--upload",
        "org/name",
    ];
    let (code, stdout, stderr) = run(INSPECT, &hub, dir.path(), &args, &[]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("4bit.qsf, 3bit.qsf, report.html, README.md uploaded"), "{stdout}");
    let state = hub.state.lock().unwrap();
    assert_eq!(state.commits, 1);
    assert_eq!(state.files["report.html"], fs::read(dir.path().join("page.html")).unwrap());
    let card = String::from_utf8(state.files["README.md"].clone()).unwrap();
    assert!(card.contains("base_model: \"x/demo\"") || card.contains("base_model: x/demo"), "{card}");
}
