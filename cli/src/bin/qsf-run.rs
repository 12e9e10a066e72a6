//! `qsf-run`: generates text with a model, measures how fast it and its kernels are, or shows the tokens of a text.

use std::process::ExitCode;

fn main() -> ExitCode {
    qsf_cli::run::main()
}
