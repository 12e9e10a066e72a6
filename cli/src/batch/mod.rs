//! `qsf-convert --batch`: many conversions, each in a process of its own, that can be stopped and started again at will.
//!
//! | File | Duty |
//! |---|---|
//! | `any_path` | paths in JSON, UTF-8 or not |
//! | `args` | flags, and which jobs are this shard's |
//! | `manifest` | the list of jobs as it is written, with lines |
//! | `list`, `checker`, `job` | what its entries mean: command lines, checked by the command line's own parser |
//! | `results`, `result_lines` | `results.jsonl`: what came of each job |
//! | `fingerprint` | what a result was made of, and whether that has changed |
//! | `record` | one of them |
//! | `schedule` | which job runs when |
//! | `marker` | which outputs are of jobs that have begun |
//! | `budget`, `growth` | memory that running jobs share, and what is done about one that takes more |
//! | `child`, `protocol`, `worker` | the process of a job, from outside, the talk with it, and from inside |
//! | `forecast` | what jobs will take, before they run |
//! | `dispatch`, `errand` | a batch whose jobs other machines do, and a job there |
//! | `watch`, `summary` | what a user sees, under way and at the end |
//! | `error` | what can go wrong with all of it |

mod any_path;
mod args;
mod budget;
mod checker;
mod child;
mod dispatch;
mod errand;
mod error;
mod fingerprint;
mod forecast;
mod growth;
mod job;
mod list;
pub mod manifest;
mod marker;
mod protocol;
mod record;
mod result_lines;
mod results;
mod schedule;
mod summary;
mod watch;
mod worker;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Command;
use qsf_runtime::progress::Cancel;

pub use args::{BatchArgs, Shard};
pub use child::Program;
pub use dispatch::{Demand, Dispatch};
pub use errand::Errand;
pub use error::{BatchError, Problem};
pub use forecast::{Expected, Forecast};
pub use list::words_by_name;
pub use record::{Record, State};
pub use summary::{Outcome, Summary};
pub use worker::Worker;

use budget::Budget;
use forecast::{FAILS, SKIPPED, TO_DO, needs, threads_of};
use job::BatchJob;
use list::{foreign_output, read_jobs};
use marker::Marker;
use results::Results;
use schedule::{Schedule, Settings, work_of};
use watch::Watch;

use crate::progress::Verbosity;

/// Does the jobs that `list` names, into the folder of `args`. `command` is the command line that options of jobs are of, and
/// `threads` what all jobs share.
///
/// # Errors
/// When the list is mistaken, another process has the results, or they cannot be written. What goes wrong with a job is in the
/// summary; so are jobs that were not started because of `cancel`.
pub fn run_batch(
    list: &Path,
    args: &BatchArgs,
    command: &Command,
    threads: usize,
    verbosity: Verbosity,
    cancel: &Cancel,
) -> Result<Summary, BatchError> {
    let started = Instant::now();
    let out_dir = args.out_dir.as_deref().unwrap_or(Path::new("."));
    let (jobs, results) = open_batch(list, out_dir, args.shard.unwrap_or(Shard::ALL), command)?;
    let settings = settings(list, absolute(out_dir)?, args, threads)?;
    let watch = Watch::new(jobs.len(), jobs.iter().map(work_of).sum(), verbosity);
    let outcomes = Schedule::new(&settings, &jobs, results, watch, cancel).run()?;
    let outcomes = jobs.iter().zip(outcomes).map(|(job, outcome)| (job.line, job.output.clone(), outcome));
    Ok(Summary { jobs: outcomes.collect(), seconds: started.elapsed().as_secs_f64() })
}

/// What [`run_batch`] would do, with the memory and threads of each job. Nothing is written.
///
/// # Errors
/// When the list is mistaken, results cannot be read, or `cancel` is requested.
pub fn forecast_batch(
    list: &Path,
    args: &BatchArgs,
    command: &Command,
    threads: usize,
    cancel: &Cancel,
) -> Result<Forecast, BatchError> {
    let out_dir = args.out_dir.as_deref().unwrap_or(Path::new("."));
    let jobs = jobs_of_shard(list, args.shard.unwrap_or(Shard::ALL), command)?;
    let results = Results::read(out_dir)?;
    check_foreign(list, out_dir, &jobs, Some(&results))?;
    // It may not be there yet.
    let out_dir = absolute(out_dir).unwrap_or_else(|_| out_dir.to_owned());
    let settings = settings(list, out_dir, args, threads)?;
    let mut to_do = Vec::new();
    for job in &jobs {
        if results.done_before(job, &settings.out_dir, cancel)?.is_none() {
            to_do.push(job);
        }
    }
    let most_jobs = settings.most_jobs.min(to_do.len());
    let mut found = needs(&settings, &to_do, cancel)?.into_iter();
    let mut waiting = to_do.iter().map(|job| job.line).peekable();
    let expected = jobs.iter().map(|job| {
        let (line, output) = (job.line, job.output.clone());
        let nothing = Expected { line, output, state: SKIPPED, bytes: None, threads: None, error: None };
        if waiting.next_if_eq(&job.line).is_none() {
            return nothing;
        }
        match found.next() {
            Some(Ok(bytes)) => {
                let threads = threads_of(job, settings.cores, most_jobs, bytes, settings.budget);
                Expected { state: TO_DO, bytes: Some(bytes), threads: Some(threads), ..nothing }
            }
            Some(Err(stopped)) => {
                Expected { state: FAILS, error: Some((stopped.error, stopped.exit_code)), ..nothing }
            }
            None => nothing,
        }
    });
    let ram_bytes = Some(settings.budget.bytes()).filter(|bytes| *bytes < u64::MAX);
    Ok(Forecast { jobs: expected.collect(), ram_bytes })
}

/// The jobs of a shard, and the results of their folder, which is made.
fn open_batch(
    list: &Path,
    out_dir: &Path,
    shard: Shard,
    command: &Command,
) -> Result<(Vec<BatchJob>, Results), BatchError> {
    let jobs = jobs_of_shard(list, shard, command)?;
    // Nothing is made before the list is found to be right; what it says of outputs depends on what is known of them.
    if !results::exist(out_dir) {
        check_foreign(list, out_dir, &jobs, None)?;
    }
    let results = Results::open(out_dir, shard)?;
    check_foreign(list, out_dir, &jobs, Some(&results))?;
    Ok((jobs, results))
}

fn jobs_of_shard(list: &Path, shard: Shard, command: &Command) -> Result<Vec<BatchJob>, BatchError> {
    let all = read_jobs(list, command)?;
    Ok((0..).zip(all).filter(|(i, _)| shard.has(*i)).map(|(_, job)| job).collect())
}

/// That no output is there that this batch has not made.
fn check_foreign(
    list: &Path,
    out_dir: &Path,
    jobs: &[BatchJob],
    known: Option<&Results>,
) -> Result<(), BatchError> {
    let is_foreign = |output: &Path| known.is_none_or(|results| results.of(output).is_none());
    let problems: Vec<Problem> = jobs
        .iter()
        .filter(|job| !job.force)
        .filter(|job| out_dir.join(&job.output).symlink_metadata().is_ok())
        .filter(|job| !Marker::of(&out_dir.join(&job.output)).is_set().unwrap_or(false))
        .filter(|job| is_foreign(&job.output))
        .map(|job| foreign_output(list, job, &out_dir.join(&job.output)))
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(BatchError::Manifest { problems }) }
}

fn settings(list: &Path, out_dir: PathBuf, args: &BatchArgs, threads: usize) -> Result<Settings, BatchError> {
    Ok(Settings {
        out_dir,
        folder: absolute(list)?.parent().unwrap_or(Path::new("/")).to_owned(),
        program: Program::this()?,
        most_jobs: args.jobs.map_or(threads, usize::from),
        cores: threads,
        budget: Budget::new(args.ram.map(|size| size.0)),
        retry: args.retry,
        fail_fast: args.fail_fast,
    })
}

fn absolute(path: &Path) -> Result<PathBuf, BatchError> {
    path.canonicalize().map_err(|e| BatchError::io(path, "read", e))
}
