//! Every program can print completions for every shell, and a manual page, and they name all of its options.

use std::process::{Command, Output};

/// The programs, each with an option that it alone has.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("qsf-convert", env!("CARGO_BIN_EXE_qsf-convert"), "--target-size"),
    ("qsf-eval", env!("CARGO_BIN_EXE_qsf-eval"), "--golden"),
    ("qsf-inspect", env!("CARGO_BIN_EXE_qsf-inspect"), "--base-model"),
    ("qsf-run", env!("CARGO_BIN_EXE_qsf-run"), "--tokenize"),
];

fn call(path: &str, words: &[&str]) -> Output {
    Command::new(path).args(words).output().unwrap()
}

/// Stdout of a call that must succeed in silence.
#[track_caller]
fn document(path: &str, words: &[&str]) -> String {
    let Output { status, stdout, stderr } = call(path, words);
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(status.success() && stderr.is_empty(), "{path} {words:?}: {stderr}");
    String::from_utf8(stdout).unwrap()
}

#[test]
fn every_program_prints_completions_for_every_shell() {
    for (name, path, option) in PROGRAMS {
        // Fish and elvish have options without the dashes.
        let bare = option.trim_start_matches('-');
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let text = document(path, &["--completions", shell]);
            assert!(text.contains(name) && text.contains(bare), "{shell}: {text}");
            assert!(text.contains("json"), "{shell}: {text}");
        }
        let bash = document(path, &["--completions=bash"]);
        assert_eq!(bash, document(path, &["--completions", "bash"]));
        assert!(bash.contains("--completions") && bash.contains("--man"), "{bash}");
        if let Ok(checked) = Command::new("bash").args(["-n", "-c", &bash]).output() {
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        }
    }
}

#[test]
fn every_program_prints_its_manual_page() {
    for (name, path, option) in PROGRAMS {
        let page = document(path, &["--man"]);
        // A page escapes dashes.
        let words = page.replace("\\-", "-");
        assert!(words.contains(&format!(".TH {name} 1")), "{page}");
        for part in [option, "--json", "--threads", "Examples:", "Exit codes: 0 ok"] {
            let has_threads = part != "--threads" || name != "qsf-inspect";
            assert!(words.contains(part) || !has_threads, "{name}: {part} is not in {page}");
        }
        // No reference to a page that nobody makes.
        assert!(!words.contains("(1)"), "{page}");
    }
}

#[test]
fn a_call_for_a_document_with_anything_else_is_refused() {
    for (name, path, _) in PROGRAMS {
        for words in [&["--completions", "tcsh"][..], &["--completions"], &["--man", "model.qsf"]] {
            let Output { status, stdout, stderr } = call(path, words);
            let stderr = String::from_utf8(stderr).unwrap();
            assert_eq!(status.code(), Some(2), "{name} {words:?}: {stderr}");
            assert!(stdout.is_empty() && stderr.contains(words[0]), "{name} {words:?}: {stderr}");
        }
    }
}
