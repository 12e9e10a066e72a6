//! A run that is cut off - by the user, the system or a full disk - ends soon, says so, and leaves no file that looks whole.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use qsf_tests::*;

/// About 90 MB, which one thread without vector instructions converts for seconds.
const LARGE: Size = Size { layers: 12, hidden: 384, ffn: 1152, vocab: 1024 };

/// Time in which an interrupted program ends: a layer of the smallest model without vector instructions, on a machine with much other
/// load.
const SOON: Duration = Duration::from_secs(20);

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until `ready`, or fails after a time in which a healthy program has long been.
#[track_caller]
fn wait_until(child: &mut Child, what: &str, ready: impl Fn() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert_eq!(child.try_wait().unwrap(), None, "ended before {what}");
        assert!(started.elapsed() < Duration::from_secs(60), "no {what} in a minute");
        sleep(Duration::from_millis(2));
    }
}

/// The exit code of a process that was told to end. One that finishes its work first has another than that of interruption.
#[track_caller]
fn ends_soon(mut child: Child) -> Option<i32> {
    let told = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if told.elapsed() > SOON {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("still running after {SOON:?}");
        }
        sleep(Duration::from_millis(5));
    }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |m| m.len())
}

/// A slow conversion that has written at least `bytes`.
#[track_caller]
fn conversion_under_way(model: &Path, out: &Path, args: &str, bytes: u64) -> Child {
    let call = program("qsf-convert").arg(model).arg(out).args("-q 3bit -t 1").args(args);
    let mut child = call.env("QSF_CPU", "scalar").start();
    let partial = PathBuf::from(format!("{}.partial", out.display()));
    wait_until(&mut child, "output", || partial.exists() && size(&partial) >= bytes);
    child
}

#[test]
fn interrupt_and_termination_end_a_conversion_without_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, LARGE, 1);
    for (name, bytes) in [("INT", 0), ("TERM", 0), ("INT", 1 << 20), ("TERM", 2 << 20)] {
        let out = dir.path().join("out.qsf");
        let child = conversion_under_way(&model, &out, "", bytes);
        signal(&child, name);
        assert_eq!(ends_soon(child), Some(130), "SIG{name} after {bytes} bytes");
        assert_eq!(leftovers(dir.path()), Vec::<PathBuf>::new(), "SIG{name} after {bytes} bytes");
    }
}

#[test]
fn an_interrupted_replacement_keeps_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, LARGE, 1);
    let out = dir.path().join("out.qsf");
    fs::write(&out, "the old file").unwrap();
    let child = conversion_under_way(&model, &out, "--force", 1 << 20);
    signal(&child, "INT");
    assert_eq!(ends_soon(child), Some(130));
    assert_eq!(fs::read(&out).unwrap(), b"the old file");
    assert_eq!(leftovers(dir.path()), [out]);
}

#[test]
fn a_killed_conversion_leaves_only_a_partial_file_that_the_next_one_replaces() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, Size { layers: 6, ..LARGE }, 1);
    let out = dir.path().join("out.qsf");
    let mut child = conversion_under_way(&model, &out, "", 1 << 20);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(leftovers(dir.path()), [dir.path().join("out.qsf.partial")]);
    program("qsf-convert").arg(&model).arg(&out).run().ok();
    assert_eq!(leftovers(dir.path()), [out]);
}

#[test]
fn two_conversions_to_one_name_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, LARGE, 1);
    let out = dir.path().join("out.qsf");
    let first = conversion_under_way(&model, &out, "", 1 << 20);
    let second = program("qsf-convert").arg(&model).arg(&out).run();
    assert_eq!(second.code, 3, "{}", second.stderr);
    assert!(second.stderr.contains("another process"), "{}", second.stderr);
    // The refused one must not have taken the other's file away.
    assert_eq!(leftovers(dir.path()), [dir.path().join("out.qsf.partial")]);
    signal(&first, "TERM");
    assert_eq!(ends_soon(first), Some(130));
}

#[test]
fn a_conversion_that_was_interrupted_says_how_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    let journal = dir.path().join("out.qsf.journal");
    let args = "-t 1 --calibration-tokens 2000 --calibration";
    let call = || program("qsf-convert").arg(&model).arg(&out).args(args).arg(TEXT);
    let mut child = call().start_watched();
    wait_until(&mut child, "journal", || size(&journal) > 1000);
    signal(&child, "INT");
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(ends_soon(child), Some(130), "{stderr}");
    assert!(stderr.contains("out.qsf.journal keeps what is done: the same command goes on"), "{stderr}");
    let found = call().run();
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(
        found.stderr.contains("note: going on from") && found.stderr.contains("out.qsf.journal"),
        "{}",
        found.stderr
    );
    assert!(out.exists() && !journal.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn interrupt_and_termination_end_an_evaluation_and_a_benchmark() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    for name in ["INT", "TERM"] {
        for call in [
            program("qsf-eval")
                .arg(&model)
                .arg("--file")
                .arg(TEXT)
                .args("-t 1 --base")
                .arg(&model)
                .env("QSF_CPU", "scalar"),
            program("qsf-run").arg(&model).args("--bench -r 100000 -t 1"),
        ] {
            let what = format!("SIG{name} to {call:?}");
            let mut child = call.start();
            let status = PathBuf::from(format!("/proc/{}/status", child.id()));
            wait_until(&mut child, "handler of signals", || catches_interrupts(&status));
            signal(&child, name);
            assert_eq!(ends_soon(child), Some(130), "{what}");
        }
    }
}

/// Whether the process has installed its handler: before that, the system's own ends it.
#[cfg(target_os = "linux")]
fn catches_interrupts(status: &Path) -> bool {
    let status = fs::read_to_string(status).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    // SIGINT is signal 2, bit 1.
    u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
}

#[test]
fn a_full_disk_is_its_own_exit_code_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    // A file size limit fails writes as a full disk does. Shells count in blocks of 512 or 1024 bytes; the file takes
    // 4.2 MB, which is more than each of these in either.
    for blocks in [0, 1, 100, 1000, 4000] {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let output = program("qsf-convert").arg(&model).arg(&out).args("-q f32").through_shell(&script).run();
        assert_eq!(output.code, 5, "{blocks} blocks: {}", output.stderr);
        assert!(output.stderr.contains("out.qsf"), "{blocks} blocks: {}", output.stderr);
        assert!(!output.stderr.contains("panicked"), "{blocks} blocks: {}", output.stderr);
        assert_eq!(leftovers(dir.path()), Vec::<PathBuf>::new(), "{blocks} blocks");
    }
    // The limit is what stopped it.
    program("qsf-convert").arg(&model).arg(&out).args("-q f32").through_shell("exec \"$@\"").run().ok();
    assert!(size(&out) > 4000 * 1024, "{} bytes", size(&out));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let mut locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(locked.join("probe"), "").is_ok() {
        // Root may write anywhere but where there is no disk behind.
        locked = "/proc".into();
    }
    let output = program("qsf-convert").arg(&model).arg(locked.join("out.qsf")).run();
    assert_eq!(output.code, 3, "{}", output.stderr);
    let named = output.stderr.contains(&locked.join("out.qsf").display().to_string());
    assert!(named && output.stderr.contains("cannot create"), "{}", output.stderr);
}

#[test]
fn a_reader_that_stops_listening_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    program("qsf-convert").arg(&model).arg(&out).run().ok();
    let head =
        program("qsf-inspect").arg(&out).args("--tensors --json").through_shell("\"$@\" | head -1").run();
    assert_eq!((head.stdout.as_str(), head.stderr.as_str()), ("{\n", ""));
    for call in [
        program("qsf-inspect").arg(&out).arg("--tensors"),
        program("qsf-run").arg(&out).args("-p Hello -n 200 --temp 0"),
        program("qsf-run").args("--system"),
        program("qsf-convert").arg(&model).arg(dir.path().join("other.qsf")),
    ] {
        let what = format!("{call:?}");
        // The pipe is closed before anything can be written.
        let mut child = call.start_unread();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""), "{what}");
    }
    assert!(dir.path().join("other.qsf").is_file(), "nobody reads the table, but the file was asked for");
}
