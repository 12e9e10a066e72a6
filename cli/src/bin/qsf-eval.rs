//! `qsf-eval`: how good is a model, and how far is it from another.

use std::process::ExitCode;

fn main() -> ExitCode {
    qsf_cli::evaluate::main()
}
