//! `qsf-eval`: how good is a model, and how far is it from another.
//!
//! | File | Duty |
//! |---|---|
//! | `args`, `help` | the flags, and how their help is arranged |
//! | `base` | what `--base` names: a model, or what was saved of one |
//! | `outputs` | what is written, and must not be what is read |
//! | `measure` | evaluations |
//! | `report` | what is printed of one |
//! | `parts` | parts of one as files, and all of them as one |
//! | `golden` | `--golden` |
//! | `task`, `task_report` | `--task`, and what is printed of one |

mod args;
mod base;
mod golden;
mod help;
mod measure;
mod outputs;
mod parts;
mod report;
mod task;
mod task_report;

use std::process::ExitCode;

use qsf_format::printable::printable;
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use serde_json::Value;

use crate::command_line::parse;
use crate::console::print;
use crate::exit::exit_with;
use crate::interrupt::cancel_on_interrupt;
use crate::progress::ProgressLine;

pub use args::EvalArgs;
pub use measure::evaluation_demand;
use measure::{Outcome, measure};
pub use parts::join_parts;
pub use report::Report;
use task::measure_task;

/// The whole program.
pub fn main() -> ExitCode {
    ExitCode::from(program())
}

/// The same, within a process that does other things, too; gives the exit code.
pub fn program() -> u8 {
    exit_with(cancel_on_interrupt().and_then(|_| print_evaluation(&parse())))
}

/// Prints what the flags ask for.
///
/// # Errors
/// When a model or the text cannot be read, or the two do not fit together.
pub fn print_evaluation(args: &EvalArgs) -> anyhow::Result<()> {
    if !args.join.is_empty() {
        return print_report(args, &join_parts(&args.join)?);
    }
    let cpu = args.compute.start()?;
    args.activations.check(cpu.isa(), &args.stream)?;
    let cancel = cancel_on_interrupt()?;
    if let Some(path) = &args.golden {
        return golden::print_agreement(args, &cpu, path, &cancel);
    }
    match evaluate(args, &cpu, &ProgressLine::new(args.output.verbosity()), &cancel)? {
        Outcome::Plan(streaming) => print(&streaming.describe(args.json))?,
        Outcome::Part(part) if args.json => print(&format!("{:#}\n", part.to_json()))?,
        Outcome::Part(part) => print(&printable(&part.to_text()))?,
        Outcome::Measured(report) => print_report(args, &report)?,
        Outcome::Task(report) if args.json => print(&format!("{:#}\n", report.to_json()?))?,
        Outcome::Task(report) => print(&printable(&report.to_text()))?,
    }
    Ok(())
}

fn print_report(args: &EvalArgs, report: &Report) -> anyhow::Result<()> {
    let text = if args.json { format!("{:#}\n", report.to_json()?) } else { printable(&report.to_text()) };
    print(&text)?;
    Ok(())
}

/// Runs a task, or the model over a text, as the flags say.
fn evaluate(args: &EvalArgs, cpu: &Cpu, progress: &dyn Progress, cancel: &Cancel) -> anyhow::Result<Outcome> {
    match args.task() {
        Some(request) => measure_task(args, request, cpu, progress, cancel),
        None => measure(args, cpu, progress, cancel),
    }
}

/// What `qsf-eval` prints with `--json`.
///
/// # Errors
/// When a model or the text cannot be read, the two do not fit together, or the flags ask for a plan of the memory.
pub fn evaluation_json(
    args: &EvalArgs,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<Value> {
    match evaluate(args, cpu, progress, cancel)? {
        Outcome::Measured(report) => report.to_json(),
        Outcome::Part(part) => Ok(part.to_json()),
        Outcome::Task(report) => report.to_json(),
        Outcome::Plan(_) => {
            Err(RuntimeError::Request("--memory-plan: asks for a plan, not for an evaluation".into()).into())
        }
    }
}
