//! Budgets of memory: whatever a program does, it stays within what it was granted, from its first allocation to its last; what is
//! refused is refused at once, with a budget that is enough.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use qsf_tests::*;

fn converted(dir: &Path, name: &str, model: &Path, args: &str) -> PathBuf {
    let out = dir.join(name);
    program("qsf-convert").arg(model).arg(&out).args(args).run().ok();
    out
}

/// The most anonymous memory of a call that succeeds, as the system counts it while it runs.
fn most_anonymous_memory(name: &str, call: Program) -> u64 {
    let mut child = call.start_watched();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        most = most.max(kilobytes.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{name}: {} with {most} bytes at most: {said}", ended.status);
    most
}

#[test]
fn no_budget_is_exceeded() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_llama(&model, Size { hidden: 512, ffn: 2048, layers: 6, vocab: 4000 }, 7);
    let demo = demo_model(dir.path());
    for (model, args, prompt) in [
        (&model, "--quant 8bit", "--prompt-ids 1,2,3"),
        (&model, "--quant 8bit --compress zstd", "--prompt-ids 1,2,3"),
        (&demo, "--quant 8bit", "-p Once"),
    ] {
        let file = converted(dir.path(), "m.qsf", model, args);
        for budget in [20, 27, 36, 48, 64, 200] {
            let call = program("qsf-run").arg(&file).args(prompt).args("-n 24 --temp 0 --ram-budget");
            let most = most_anonymous_memory(args, call.arg(budget.to_string()));
            assert!(most > 0 && most <= budget * 1_000_000, "{args}: {most} bytes with {budget} MB");
        }
        fs::remove_file(&file).unwrap();
    }
}

/// The budget that a refusal says is enough, in bytes.
fn named(stderr: &str) -> f64 {
    let number = |text: &str, unit: f64| text.parse::<f64>().map(|value| value * unit);
    let found = match stderr.split_once(" a budget of ") {
        Some((_, named)) => number(named.split(' ').next().unwrap(), 1e6),
        None => number(stderr.trim().rsplit(' ').nth(1).unwrap(), 1.0),
    };
    found.unwrap_or_else(|_| panic!("no budget is named: {stderr}"))
}

#[test]
fn every_program_keeps_its_budget_and_a_refusal_names_one_that_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    fs::write(model.join("chat_template.jinja"), template).unwrap();
    let file = converted(dir.path(), "m.qsf", &model, "--quant 8bit");
    let (long, short) = (dir.path().join("long.txt"), dir.path().join("short.txt"));
    let text = fs::read_to_string(TEXT).unwrap();
    fs::write(&long, text.repeat(40)).unwrap();
    fs::write(&short, &text[..text.floor_char_boundary(600)]).unwrap();
    let run = || program("qsf-run").arg(&file);
    let eval = || program("qsf-eval").arg(&file).arg("--file").arg(&long).args("--chunks 2");
    let convert = || program("qsf-convert").arg(&model).args("--force");
    let calibrated = |call: Program| call.arg("--calibration").arg(&long).args("--calibration-tokens 512");
    let (out, stats) = (dir.path().join("out.qsf"), dir.path().join("out.stats"));
    type Call<'a> = &'a dyn Fn() -> Program;
    let programs: [(&str, &str, Call<'_>); 10] = [
        ("a prompt", "--ram-budget", &|| run().args("-p Once -n 8 --temp 0")),
        ("a long prompt", "--ram-budget", &|| run().arg("-f").arg(&short).args("-n 8 --temp 0")),
        ("chat", "--ram-budget", &|| run().args("--chat -p Hello -n 8 --temp 0")),
        ("tokenize", "--ram-budget", &|| run().arg("--tokenize").arg("-f").arg(&long)),
        ("bench", "--ram-budget", &|| run().args("--bench --pp 16 --tg 4 -r 1")),
        ("eval", "--ram-budget", &eval),
        ("eval with base", "--ram-budget", &|| eval().arg("--base").arg(&model)),
        ("convert", "--ram", &|| convert().arg(&out)),
        ("calibrate", "--ram", &|| calibrated(convert().arg(&out))),
        ("statistics", "--ram", &|| calibrated(convert().args("--stats-only --stats-out").arg(&stats))),
    ];
    for (name, flag, call) in programs {
        let within = |bytes: f64| call().arg(flag).arg(format!("{:.4}MB", bytes / 1e6));
        let started = Instant::now();
        let refused = within(1e6).run();
        assert_eq!(refused.code, 5, "{name}: {}", refused.stderr);
        // A second where nothing else runs, and the program is not one for tests.
        assert!(started.elapsed() < Duration::from_secs(10), "{name}: {:?}", started.elapsed());
        let enough = named(&refused.stderr);
        assert_eq!(within(0.8 * enough).run().code, 5, "{name}: less than {enough} bytes is enough");
        for budget in [enough, 100e6, 220e6, 1000e6] {
            let most = most_anonymous_memory(&format!("{name} with {budget}"), within(budget));
            assert!(most > 0 && most as f64 <= budget, "{name}: {most} bytes with {budget}");
        }
    }
}
