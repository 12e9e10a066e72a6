//! What `qsf-convert` does, by its command line.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, Parser as _};
use qsf_converter::{ConvertOptions, predict, predict_peak};
use qsf_format::{Compression, Failure};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::{self, WeightSource};
use serde_json::json;

use super::args::ConvertArgs;
use super::choose::{choose_options, plan_to_replay};
use super::demo::{demo_table, run_demo};
use super::embed::Embedded;
use super::make::{Made, make, make_and_upload};
use super::model::{open_model, output};
use super::outputs::check_outputs;
use super::ram::Ram;
use super::report::{conversion_text, files_text, plan_table, prediction_json, prediction_lines};
use super::stats::{statistics_json, statistics_line};
use super::stats_report::StatsReport;
use crate::batch::{BatchError, Worker, forecast_batch, run_batch};
use crate::command_line::parse;
use crate::console::{print, print_json};
use crate::exit::{class_of, exit_with};
use crate::interrupt::cancel_on_interrupt;
use crate::json_document::document;
use crate::progress::ProgressLine;
use crate::template_process::render_if_asked;

/// The whole program.
pub fn main() -> ExitCode {
    ExitCode::from(program())
}

/// The same, within a process that does other things, too; gives the exit code.
pub fn program() -> u8 {
    if let Some(code) = render_if_asked() {
        return code;
    }
    // For a process of a batch, too, which tells of an error of this itself.
    let handler = cancel_on_interrupt();
    let args: ConvertArgs = parse();
    if args.batch.batch_worker {
        return work(&args);
    }
    exit_with(handler.and_then(|_| run(&args)))
}

fn run(args: &ConvertArgs) -> anyhow::Result<()> {
    if let Some(jobs) = &args.batch.batch {
        return batch(args, jobs);
    }
    let cancel = cancel_on_interrupt()?;
    let progress = ProgressLine::new(args.output.verbosity());
    if let Some(found) = statistics_json(args, || args.compute.start(), &progress, &cancel)? {
        print(&if args.json { format!("{found:#}\n") } else { statistics_line(&found) })?;
        return Ok(());
    }
    if let Some(embedded) = Embedded::of(args)? {
        if args.json {
            print_json(&embedded.to_json())?;
        } else if !args.output.quiet {
            print(&embedded.to_text())?;
        }
        return Ok(());
    }
    let cpu = args.compute.start()?;
    if args.demo {
        return demo(args, &cpu, &cancel);
    }
    if !args.show_stats.is_empty() {
        return show_stats(args, &cpu);
    }
    if args.dry_run {
        let (name, source) = open_model(args, None, &progress, &cancel)?;
        return dry_run(args, &name, source.as_ref(), &cpu, &progress, &cancel);
    }
    let (made, sent) = make_and_upload(args, &cpu, &progress, &cancel, &|made| report(args, made))?;
    if args.json {
        print_json(&made.to_json(sent.as_ref()))?;
    } else if let Some(sent) = sent.filter(|_| !args.output.quiet) {
        print(&sent.to_text())?;
    }
    Ok(made.check_limits()?)
}

/// Does a job of a batch in this process, by the words for `qsf-convert` that the batch starts it with, and gives the exit code.
pub fn job_process(words: Vec<OsString>) -> u8 {
    let command = command();
    let line = std::iter::once(command.get_name().into()).chain(words);
    match ConvertArgs::try_parse_from(line) {
        Ok(args) => work(&args),
        Err(error) => {
            eprintln!("{error}");
            Failure::Usage.exit_code()
        }
    }
}

/// The command line, which options of jobs are of.
pub fn command() -> Command {
    ConvertArgs::command()
}

/// Does a job of a batch, in a process of its own; gives the exit code.
fn work(args: &ConvertArgs) -> u8 {
    let handler = cancel_on_interrupt();
    let cancel = handler.as_ref().ok().cloned().unwrap_or_default();
    Worker::run(
        &cancel,
        |error| class_of(error).unwrap_or(Failure::Usage),
        |worker| {
            handler?;
            let cpu = args.compute.start()?;
            let ready = |source: &dyn WeightSource, options: &ConvertOptions| worker.ready(source, options);
            Ok(make(args, &cpu, worker, &cancel, &ready)?.conversion)
        },
    )
}

/// Does all jobs of a list, and says what came of them; with --dry-run, what is to be expected.
fn batch(args: &ConvertArgs, jobs: &Path) -> anyhow::Result<()> {
    let threads = args.compute.counts()?;
    let [threads] = threads[..] else {
        let several = "--threads: a list of several numbers is for measurements";
        return Err(RuntimeError::Request(several.into()).into());
    };
    let cancel = cancel_on_interrupt()?;
    if args.dry_run {
        let forecast = forecast_batch(jobs, &args.batch, &command(), threads, &cancel)?;
        print(&if args.json { format!("{:#}\n", forecast.to_json()) } else { forecast.to_table() })?;
        let (failed, total) = (forecast.failing(), forecast.jobs.len());
        return if failed > 0 { Err(BatchError::JobsFailed { failed, total }.into()) } else { Ok(()) };
    }
    let summary = run_batch(jobs, &args.batch, &command(), threads, args.output.verbosity(), &cancel)?;
    if args.json {
        print_json(&summary.to_json())?;
    } else if !args.output.quiet {
        print(&summary.to_table())?;
    }
    let (failed, total) = (summary.failed(), summary.jobs.len());
    if cancel.is_requested() {
        return Err(BatchError::Interrupted { done: total - failed, total }.into());
    }
    if failed > 0 { Err(BatchError::JobsFailed { failed, total }.into()) } else { Ok(()) }
}

/// What people are told of it.
fn report(args: &ConvertArgs, made: &Made) -> anyhow::Result<()> {
    if !args.json && !args.output.quiet {
        let (conversion, tensors) = (&made.conversion, !args.no_table);
        let text = conversion_text(conversion, made.block, tensors);
        print(&format!("{text}{}: written and verified\n", files_text(conversion)))?;
    }
    Ok(())
}

/// Prints what statistics files hold together.
fn show_stats(args: &ConvertArgs, cpu: &Cpu) -> anyhow::Result<()> {
    let source = args.model.as_deref().map(source::open).transpose()?;
    let report = StatsReport::new(&args.show_stats, source.as_deref(), cpu)?;
    print(&if args.json { format!("{:#}\n", report.to_json()) } else { report.to_table() })?;
    Ok(())
}

/// Prints what the conversion would give and take; with --save-plan, writes the plan that it would make.
fn dry_run(
    args: &ConvertArgs,
    name: &str,
    source: &dyn WeightSource,
    cpu: &Cpu,
    progress: &ProgressLine,
    cancel: &Cancel,
) -> anyhow::Result<()> {
    check_outputs(args, Some(source), None)?;
    let plan = plan_to_replay(args)?;
    let options = choose_options(args, plan.as_ref(), source)?;
    Ram::of(args).check(|| predict_peak(source, &options))?;
    let out = output(args, plan.as_ref())?;
    let found = predict(source, &options, cpu, progress, cancel)?;
    if !args.force && out.symlink_metadata().is_ok() {
        progress.note(&format!("{} exists: the conversion needs another name, or --force", out.display()));
    }
    let quantized_from = source.quantized_from();
    let needs_permission = !quantized_from.is_empty() && found.plan.quantizes() && !args.allow_requantize;
    if args.json {
        let mut value = prediction_json(&found, options.block);
        value["model"] = json!(name);
        value["type"] = json!(options.named);
        value["compressed"] = json!(options.compression != Compression::None);
        value["quantized_from"] = json!(quantized_from);
        value["needs_allow_requantize"] = json!(needs_permission);
        if let Some(files) = found.files {
            value["predicted_files"] = json!(files);
        }
        print_json(&document("prediction", value))?;
        return Ok(());
    }
    let mut out = String::new();
    if !args.no_table && (options.size_limit.is_some() || plan.is_some()) {
        out += &plan_table(&found.plan, options.block);
        out += "\n";
    }
    out += &prediction_lines(
        &found,
        &format!("{name} as {}", options.named),
        options.compression != Compression::None,
    );
    if needs_permission {
        let types = quantized_from.join(", ");
        out += &format!("already quantized ({types}): the conversion needs --allow-requantize\n");
    }
    if let Some(path) = &args.save_plan {
        out += &format!("{0}: the plan; --plan {0} makes this file\n", path.display());
    }
    print(&out)?;
    Ok(())
}

fn demo(args: &ConvertArgs, cpu: &Cpu, cancel: &Cancel) -> anyhow::Result<()> {
    let lines = run_demo(&args.demo_dir, cpu, &ProgressLine::new(args.output.verbosity()), cancel)?;
    if args.json {
        let value = json!({ "folder": args.demo_dir.display().to_string(), "files": lines });
        print_json(&document("demo", value))?;
    } else {
        // Under `cargo run` nothing is installed: the suggestion must work as it stands.
        let run = if std::env::var_os("CARGO").is_some() {
            "cargo run --release --bin qsf-run --"
        } else {
            "qsf-run"
        };
        print(&format!(
            "{}\nThe files are in {}. Try: {run} {} -p \"Once upon a time\" -n 32\n",
            demo_table(&lines),
            args.demo_dir.display(),
            args.demo_dir.join("demo-1m-4bit.qsf").display()
        ))?;
    }
    Ok(())
}
