//! A job that this machine does for a batch that another one runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use clap::Command;
use qsf_runtime::progress::Cancel;
use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::child::Program;
use super::error::{BatchError, Problem};
use super::job::BatchJob;
use super::list::read_jobs;
use super::record::Record;
use super::results::Results;
use super::schedule::{Schedule, Settings};
use super::watch::Watch;
use qsf_runtime::file_hash::sha256;

/// What a machine has to know of a job. Paths mean the same on both machines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Errand {
    /// The list of jobs.
    #[serde(with = "super::any_path")]
    pub(super) list: PathBuf,
    /// Hash of it: what one machine has checked is what the other does.
    pub(super) list_sha256: String,
    /// The number of the job in it, counted from 0.
    pub(super) position: usize,
    /// Folder for the files.
    #[serde(with = "super::any_path")]
    pub(super) out_dir: PathBuf,
    /// The last record of its output, if there is one.
    pub(super) known: Option<Record>,
    /// Threads that it has.
    pub(super) threads: usize,
    /// How often it is tried again.
    pub(super) retry: u32,
}

impl Errand {
    /// Does the job in a process that `program` runs; `command` is the command line that options of jobs are of.
    ///
    /// # Errors
    /// When the list is not that of the other machine, or `cancel` is requested. What goes wrong with the job is in the record.
    pub fn run(&self, command: &Command, program: Program, cancel: &Cancel) -> Result<Record, BatchError> {
        if hash_of(&self.list)? != self.list_sha256 {
            let what = "the list is not what it was when the batch began, or this machine sees another file";
            let file = self.list.clone();
            let problems = vec![Problem { file, line: 1, key: None, what: what.into() }];
            return Err(BatchError::Manifest { problems });
        }
        let jobs = read_jobs(&self.list, command)?;
        let job: &BatchJob = jobs.get(self.position).ok_or_else(|| BatchError::Manifest {
            problems: vec![Problem {
                file: self.list.clone(),
                line: jobs.len(),
                key: None,
                what: format!("expected more than {} jobs", self.position),
            }],
        })?;
        let settings = Settings {
            out_dir: self.out_dir.clone(),
            folder: self.list.parent().unwrap_or(Path::new("/")).to_owned(),
            program,
            most_jobs: 1,
            cores: self.threads,
            // Whoever has sent it here knows what it takes, and has kept that free.
            budget: Budget::NONE,
            retry: self.retry,
            fail_fast: false,
        };
        let results = Results::known(self.known.clone());
        let schedule = Schedule::new(&settings, slice::from_ref(job), results, Watch::silent(), cancel);
        let outcome = schedule.run()?.pop();
        let record = outcome.as_ref().and_then(|outcome| outcome.record());
        record.cloned().ok_or(BatchError::Interrupted { done: 0, total: 1 })
    }
}

/// Hash of a file that is known to be small.
pub(super) fn hash_of(list: &Path) -> Result<String, BatchError> {
    let text = fs::read(list).map_err(|e| BatchError::io(list, "read", e))?;
    Ok(sha256(&text))
}
