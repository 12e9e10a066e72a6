//! Jobs: what the entries of a list mean.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Command;

use super::checker::{Checker, OUTPUT};
use super::error::{BatchError, Problem};
use super::manifest::{self, Given, Pair};

/// A job that can be done.
#[derive(Debug, Clone)]
pub struct BatchJob {
    /// Where it is in the list.
    pub line: usize,
    /// Its model as it is written.
    pub model: String,
    /// The model's place; `None` for a model of the hub.
    pub model_path: Option<PathBuf>,
    /// Its file, below the folder for all files.
    pub output: PathBuf,
    /// Where a file that its options ask for is written as well.
    pub also_written: Option<PathBuf>,
    /// The command line but for program and output: what comes before MODEL.
    pub options: Vec<OsString>,
    /// Everything that the result depends on but for the contents of files: options with their values, defaults as well.
    pub settings: BTreeMap<String, Vec<String>>,
    /// Files that it reads beside the model, each with the option that names it.
    pub inputs: Vec<(String, PathBuf)>,
    /// Whether a file that is there may be replaced.
    pub force: bool,
    /// Threads that it takes, where it says so.
    pub threads: Option<usize>,
}

impl BatchJob {
    /// The model by its full path, or by its name on the hub.
    pub fn model_name(&self) -> String {
        self.model_path.as_ref().map_or_else(|| self.model.clone(), |path| path.display().to_string())
    }

    /// The words for the process that writes it to `output`, on `threads` threads where it does not say how many.
    pub fn command_line(&self, output: &Path, threads: usize) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--batch-worker".into()];
        if self.threads.is_none() {
            words.push(format!("--threads={threads}").into());
        }
        words.extend(self.options.iter().cloned());
        // What an unfinished conversion with other inputs or options left is out of date as well.
        if !self.force {
            words.push("--force".into());
        }
        words.extend(["--".into(), self.model.clone().into(), output.into()]);
        words
    }
}

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
    let jobs: Vec<BatchJob> = entries.iter().filter_map(|entry| checker.job(entry)).collect();
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
