//! How the help of `qsf-inspect` is arranged.

use super::program::InspectProgram;
use crate::command_line::{Help, Program};

impl Program for InspectProgram {
    const HELP: Help = Help {
        about: "Shows what is in models, checks files, compares models, and makes pages",
        usage: "qsf-inspect [OPTIONS] FILE...\n       qsf-inspect diff A B\n       qsf-inspect report FILE... -o PAGE.html",
        short: &[
            ("files", "QSF files, GGUF files or HuggingFace directories"),
            ("tensors", "List every tensor"),
            ("verify", "Check every byte; a line for each of several files"),
            ("allow_plain", "With --verify: accept files without checksums"),
            ("json", "Print one JSON object"),
            ("quiet", "Print no notes and no progress"),
        ],
        commands: &[
            ("diff", "Compare two models; exit code 1 when they differ"),
            ("report", "Write a page about QSF files"),
        ],
        examples: "Examples:
  qsf-inspect model.qsf --tensors
  qsf-inspect --verify *.qsf
  qsf-inspect diff model-dir model.qsf
  qsf-inspect report *.qsf -o report.html",
        groups: &[
            ("What is shown", &["tensors", "verify", "allow_plain", "json", "quiet"]),
            ("Other", &["untrusted", "completions", "man", "help", "version"]),
        ],
    };
}
