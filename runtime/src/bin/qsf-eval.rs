//! `qsf-eval`: how good is a model, and how far is it from another.

use std::process::ExitCode;

use clap::Parser;
use qsf_format::cli::exit_with;
use qsf_runtime::cli::{EvalArgs, classify, print_evaluation};

fn main() -> ExitCode {
    exit_with(print_evaluation(&EvalArgs::parse()), classify)
}
