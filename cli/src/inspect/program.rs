//! The command line of `qsf-inspect`, and what it does by it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::{DiffArgs, InspectArgs, ReportArgs, inspect, print_difference, write_report};
use crate::command_line::parse;
use crate::exit::exit_with;
use crate::interrupt::cancel_on_interrupt;

/// Shows what QSF files, GGUF files and HuggingFace directories hold, checks that files are whole, compares two models, or writes
/// a page about files.
#[derive(Debug, Parser)]
#[command(name = "qsf-inspect", version, after_help = EXAMPLES)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub struct InspectProgram {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    inspect: InspectArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare two models, in QSF files, GGUF files or HuggingFace directories: exit code 0 when they compute the same, else 1
    Diff(DiffArgs),
    /// Write a page about QSF files: sizes, quality, types and errors of their tensors, provenance
    Report(ReportArgs),
}

const EXAMPLES: &str = "Examples:
  qsf-inspect model.qsf                  header, sections and sizes
  qsf-inspect model.qsf --tensors        every tensor
  qsf-inspect --verify *.qsf             is every byte as it was written?
  qsf-inspect model.gguf                 what a source holds
  qsf-inspect diff model-dir model.qsf   what did the conversion change?
  qsf-inspect report *.qsf -o report.html
                                         all of that, as a page for a browser

Exit codes: 0 ok, 1 models that differ, 2 usage, 3 unreadable or damaged file, 4 unsupported file, 130 interrupted.";

/// Of a comparison that has found something, as of diff(1).
const DIFFERENT: u8 = 1;

/// What the command line asks for. Gives whether two models compute the same, where that was the question.
fn run(args: &InspectProgram) -> anyhow::Result<bool> {
    match &args.command {
        Some(Command::Diff(diff)) => print_difference(diff),
        Some(Command::Report(report)) => write_report(report).map(|()| true),
        None => inspect(&args.inspect).map(|()| true),
    }
}

/// The whole program.
pub fn main() -> ExitCode {
    ExitCode::from(program())
}

/// The same, within a process that does other things, too; gives the exit code.
pub fn program() -> u8 {
    match cancel_on_interrupt().and_then(|_| run(&parse())) {
        Ok(false) => DIFFERENT,
        result => exit_with(result.map(|_| ())),
    }
}
