//! What the entries of a list mean: jobs, or mistakes.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;

use super::checker::{Checker, OUTPUT};
use super::error::{BatchError, Problem};
use super::job::BatchJob;
use super::manifest::{self, Given, Pair};

/// Problems after which no others are looked for.
const MAX_PROBLEMS: usize = 100;

/// Reads and checks the list at `path`; `command` is the command line that options are of.
///
/// # Errors
/// All mistakes, with line and key.
pub fn read_jobs(path: &Path, command: &Command) -> Result<Vec<BatchJob>, BatchError> {
    let entries = manifest::read(path)?;
    let folder = path.canonicalize().map_err(|e| BatchError::io(path, "read", e))?;
    let folder = folder.parent().unwrap_or(Path::new("."));
    let mut checker = Checker::new(path, folder, command);
    if entries.is_empty() {
        checker.problem(1, None, "there are no jobs in it");
    }
    let mut jobs = Vec::new();
    for entry in &entries {
        jobs.extend(checker.job(entry));
        // Who has made so many mistakes has made one in all of them.
        if checker.problems.len() > MAX_PROBLEMS {
            break;
        }
    }
    checker.names_are_taken_once(&jobs);
    if checker.problems.is_empty() {
        return Ok(jobs);
    }
    checker.problems.sort_by_key(|problem| problem.line);
    Err(BatchError::Manifest { problems: checker.problems })
}

/// The words of a command line that options by name are, without program, model and output: what a job has, for whoever has no
/// list.
///
/// # Errors
/// What is wrong, with the names of the options.
pub fn words_by_name(command: &Command, options: &[(String, Given)]) -> Result<Vec<OsString>, String> {
    let nowhere = Path::new("");
    let mut checker = Checker::new(nowhere, nowhere, command);
    let mut words = Vec::new();
    for (key, value) in options {
        let pair = Pair { key: key.clone(), line: 0, value: value.clone() };
        words.extend(checker.words(&pair, &key.replace('_', "-")));
    }
    if checker.problems.is_empty() {
        return Ok(words);
    }
    let line =
        |problem: &Problem| format!("{}: {}", problem.key.as_deref().unwrap_or_default(), problem.what);
    Err(checker.problems.iter().map(line).collect::<Vec<_>>().join("; "))
}

/// The problem of a job whose output is there, and was not made by this batch.
pub fn foreign_output(list: &Path, job: &BatchJob, output: &Path) -> Problem {
    Problem {
        file: list.to_owned(),
        line: job.line,
        key: Some(OUTPUT.into()),
        what: format!(
            "{} exists, and no record says that this batch made it: remove it, choose another name, or say \"force\": true",
            output.display()
        ),
    }
}
