//! What can be known before a conversion is said before it, and what fails behind it leaves the finished file.

use std::fs;
use std::path::Path;

use qsf_tests::*;

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

#[test]
fn limits_and_texts_that_cannot_do_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let (out, short) = (dir.path().join("out.qsf"), dir.path().join("short.txt"));
    fs::write(&short, "Once upon a time.").unwrap();
    let eval = format!("--target-size 500kB --eval {}", short.display());
    for (args, code, says) in [
        (eval.as_str(), 2, ["short.txt", "needs at least 512"]),
        ("--max-size 100kB", 6, ["--max-size allows 100.0 kB", "--target-size 100.0kB"]),
        ("--target-size 1MB --max-size 500kB", 2, ["--max-size", "1.0"]),
    ] {
        refused(args, dir.path(), convert(&model, &out, args), code, &says);
    }
}

#[test]
fn a_file_that_the_disk_has_no_room_for_is_refused_before_it_is_begun() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("huge");
    // Its weights are holes: 3 TB of them.
    write_sparse_llama(&model, Size { layers: 1 << 12, hidden: 4096, ffn: 11008, vocab: 32000 });
    let call = convert(&model, &dir.path().join("out.qsf"), "--quant f32");
    refused("a full disk", dir.path(), call, 5, &["out.qsf", "are free there"]);
}

/// An evaluation that somebody stops: the conversion before it is not lost.
#[cfg(unix)]
#[test]
fn what_fails_behind_the_conversion_leaves_the_file() {
    use std::io::{BufRead, BufReader};

    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    let long = dir.path().join("long.txt");
    fs::write(&long, fs::read_to_string(TEXT).unwrap().repeat(40)).unwrap();
    let args = format!("--quant 4bit -t 1 --eval {}", long.display());
    let mut child = convert(&model, &out, &args).env("QSF_PROGRESS_SECONDS", "0.05").start_watched();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line.starts_with("evaluating")), "the evaluation was not begun");
    let told = std::process::Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(told.unwrap().success());
    let last = lines.last().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{last}");
    assert!(last.contains("out.qsf: the file is whole and verified"), "{last}");
    program("qsf-inspect").arg(&out).arg("--verify").run().ok();
    // A file that a limit has not been tried on has not the name of one that keeps it.
    assert!(!dir.path().join("out.qsf.partial").exists());
}

#[test]
fn results_that_will_disappoint_are_warned_of_and_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let bare = dir.path().join("bare");
    write_llama(&bare, Size::TINY, 1);
    let few = dir.path().join("few.txt");
    fs::write(&few, "Once upon a").unwrap();
    let few = format!("--quant n3 --calibration {}", few.display());
    let enough = format!("--quant n3 --calibration {CALIBRATION} --calibration-tokens 3000");
    for (model, out, args, says) in [
        (&model, "a.qsf", "--quant 4bit", None),
        (&model, "b.qsf", enough.as_str(), None),
        (&model, "c.qsf", few.as_str(), Some("so few can make the file worse than none")),
        (&model, "d.safetensors", "--quant 4bit", Some("d.safetensors: the file will be QSF")),
        (&bare, "e.qsf", "--quant 4bit", Some("has no tokenizer")),
        (&model, "f.qsf", "--target-size 9MB --calibration-tokens 1500", Some("no larger types")),
    ] {
        let out = dir.path().join(out);
        let found = convert(model, &out, args).run();
        assert_eq!(found.code, 0, "{args}: {}", found.stderr);
        match says {
            Some(says) => assert!(
                found.stderr.contains("warning: ") && found.stderr.contains(says),
                "{args}: {}",
                found.stderr
            ),
            None => assert!(!found.stderr.contains("warning"), "{args}: {}", found.stderr),
        }
        assert!(out.is_file());
    }
}

#[test]
fn a_log_has_a_line_for_each_stage_and_interval_and_quiet_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, small) = (demo_model(dir.path()), small_model(dir.path()));
    let out = dir.path().join("out.qsf");
    let args = format!("--target-bpw 5 --calibration {CALIBRATION} --calibration-tokens 1024 --force");
    let call = |model: &Path, more: &str, seconds: &str| {
        convert(model, &out, &args).args(more).env("QSF_PROGRESS_SECONDS", seconds).run()
    };
    let started = std::time::Instant::now();
    let log = call(&demo, "", "0.2");
    let fifths = started.elapsed().as_secs_f64() * 5.0;
    assert_eq!(log.code, 0, "{}", log.stderr);
    let lines: Vec<&str> = log.stderr.lines().filter(|line| line.contains("elapsed")).collect();
    for stage in ["choosing types", "quantizing"] {
        let line =
            lines.iter().find(|line| line.starts_with(stage)).unwrap_or_else(|| panic!("{}", log.stderr));
        assert!(line.contains(" %, elapsed 0:") && line.contains(", left "), "{line}");
    }
    assert!(lines.len() as f64 <= fifths + 4.0, "{} lines in {fifths} fifths of a second", lines.len());
    let quiet = call(&small, "--quiet", "0.01");
    assert_eq!((quiet.code, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "", ""));
    let plain = call(&small, "--no-table --verbose", "30");
    assert!(!plain.stdout.contains("layer 0 attn_q") && plain.stdout.contains("written and verified"));
    assert!(plain.stderr.contains("quantizing: done in"), "{}", plain.stderr);
}

#[test]
fn a_dry_run_takes_the_whole_command_line_and_calls_its_estimate_one() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    fs::write(&out, "mine").unwrap();
    let text = format!("--quant n3 --calibration {CALIBRATION} --calibration-tokens 600 --min-cosine 0.99");
    let args =
        format!("{text} --eval {TEXT} --eval-chunks 1 --max-kld 1 --clusters 8 --early-exit --dry-run");
    let found = convert(&model, &out, &args).run();
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stdout.contains("estimated divergence from the model: "), "{}", found.stdout);
    assert!(found.stderr.contains("out.qsf exists"), "{}", found.stderr);
    assert_eq!(fs::read(&out).unwrap(), b"mine");
}
