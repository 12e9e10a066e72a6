//! SIGTERM at any moment of any program: it is gone soon, by exit code 130 or because it was done, and what it has promised
//! holds.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use qsf_tests::*;

/// Time in which a program is gone. The programs end themselves after 1.5 s; the rest is for a machine with much other load.
const SOON: Duration = Duration::from_secs(8);

/// Pseudorandom moments up to `most` milliseconds (xorshift64*), the same in every run.
fn moments(seed: u64, most: u64) -> impl Iterator<Item = Duration> {
    let mut state = 2 * seed + 1;
    std::iter::repeat_with(move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        Duration::from_millis((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most)
    })
}

/// The exit code of a program that is told to end at that moment.
#[track_caller]
fn told_to_end(call: Program, moment: Duration) -> i32 {
    let what = format!("{call:?} after {moment:?}");
    let mut child = call.start();
    wait_for_handler(&mut child);
    sleep(moment);
    let told = Instant::now();
    let sent = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).output().unwrap();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let code = status.code().unwrap_or_else(|| panic!("{what}: {status}"));
            assert!(code == 130 || code == 0, "{what}: {code}");
            return code;
        }
        assert!(sent.status.success(), "{what}");
        if told.elapsed() > SOON {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: still running");
        }
        sleep(Duration::from_millis(2));
    }
}

/// Before that the system's own handler ends the program, which loses nothing either.
fn wait_for_handler(child: &mut Child) {
    let path = format!("/proc/{}/status", child.id());
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(30) {
        let status = fs::read_to_string(&path).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        // SIGTERM is signal 15.
        if u64::from_str_radix(caught.trim(), 16).is_ok_and(|caught| caught & 1 << 14 != 0) {
            return;
        }
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_conversion_that_is_told_to_end_at_any_moment_goes_on_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let call = |name: &str| {
        let call = program("qsf-convert").arg(&model).arg(dir.path().join(name));
        call.args("-t 1 -q 3bit --calibration-tokens 1500 --calibration").arg(TEXT)
    };
    call("whole.qsf").run().ok();
    let whole = fs::read(dir.path().join("whole.qsf")).unwrap();
    for seed in 1..=2 {
        // Later and later, so that it comes to its end.
        for (moment, round) in moments(seed, 1200).zip(0..) {
            let code = told_to_end(call("out.qsf"), moment * (1 + round) / 3);
            assert!(!dir.path().join("out.qsf.partial").exists(), "after {moment:?}");
            if code == 0 || round == 12 {
                break;
            }
        }
        let out = dir.path().join("out.qsf");
        if !out.exists() {
            assert_eq!(call("out.qsf").run().code, 0);
        }
        assert!(fs::read(&out).unwrap() == whole, "other bytes");
        assert!(!dir.path().join("out.qsf.journal").exists());
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn every_program_that_is_told_to_end_at_any_moment_does_so() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = dir.path().join("model.qsf");
    program("qsf-convert").arg(&model).arg(&file).run().ok();
    // The library that splits a text into tokens takes long for it, and looks at no flag.
    let long = dir.path().join("long.txt");
    fs::write(&long, "the cat, and the dog ".repeat(400_000)).unwrap();
    let calls: [&dyn Fn() -> Program; 7] = [
        &|| program("qsf-run").arg(&file).args("-p Hello -n 500 --temp 0"),
        &|| program("qsf-run").arg(&file).args("--tokenize -f").arg(&long),
        &|| program("qsf-run").arg(&file).args("--bench -r 100000"),
        &|| program("qsf-eval").arg(&file).arg("--file").arg(TEXT).arg("--base").arg(&model),
        &|| program("qsf-eval").arg(&file).arg("--file").arg(&long),
        &|| program("qsf-inspect").arg(&file).arg("--verify"),
        &|| program("qsf-inspect").arg("diff").arg(&file).arg(&file),
    ];
    for (call, seed) in calls.iter().zip(1..) {
        for moment in moments(seed, 900).take(4) {
            told_to_end(call(), moment);
        }
    }
}

#[test]
fn a_conversation_that_is_told_to_end_does_so_at_the_prompt_and_in_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    for moment in moments(9, 900).take(4) {
        let mut child = talk(&model);
        wait_for_handler(&mut child);
        sleep(moment);
        let told = Instant::now();
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        // Waiting would close it, and the end of what is typed ends a conversation with 0.
        let typed = child.stdin.take();
        let status = child.wait().unwrap();
        drop(typed);
        assert_eq!(status.code(), Some(130), "after {moment:?}");
        assert!(told.elapsed() < SOON, "after {moment:?}: {:?}", told.elapsed());
    }
}

#[test]
fn a_program_that_is_to_outlive_its_terminal_does() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let call = program("qsf-convert").arg(&model).arg(dir.path().join("out.qsf"));
    let call = call.args("-t 1 -q 3bit --calibration-tokens 1500 --calibration").arg(TEXT);
    // As nohup does.
    let mut child = call.through_shell("trap '' HUP; exec \"$@\"").start();
    wait_for_handler(&mut child);
    sleep(Duration::from_millis(100));
    assert!(Command::new("kill").args(["-s", "HUP", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A conversation whose stdin stays open.
fn talk(model: &Path) -> Child {
    program("qsf-run").arg(model).args("-i -p Hello -n 60 --temp 0").start_talking()
}
