//! A batch whose jobs other machines do: which are to be done and what they take, and what comes back of them.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Command;
use qsf_runtime::progress::Cancel;

use super::args::Shard;
use super::budget::Budget;
use super::child::Program;
use super::errand::{Errand, hash_of};
use super::error::BatchError;
use super::forecast::{needs, threads_of};
use super::job::BatchJob;
use super::protocol::Stopped;
use super::record::{Record, State, Tries};
use super::results::Results;
use super::schedule::{Settings, work_of};
use super::summary::{Outcome, Summary, line_of};
use super::watch::Watch;
use super::{absolute, open_batch};

/// A batch under way on other machines.
pub struct Dispatch {
    list: PathBuf,
    list_sha256: String,
    settings: Settings,
    jobs: Vec<BatchJob>,
    outcomes: Vec<Outcome>,
    results: Results,
    watch: Watch,
    /// What each job will take, once that is known.
    predicted: Vec<Option<u64>>,
    started: Instant,
}

/// What a job will take.
#[derive(Debug, Clone)]
pub struct Demand {
    /// Its number in the list, counted from 0.
    pub position: usize,
    /// Its file, for messages.
    pub output: PathBuf,
    /// Peak of its memory, in bytes.
    pub bytes: u64,
    /// Its threads.
    pub threads: usize,
}

use crate::progress::Verbosity;

impl Dispatch {
    /// Checks the list, takes hold of the results in `out_dir`, and skips what is done. Processes of jobs run `program`;
    /// `own_cores` is what this machine has, to look at as many models at a time.
    ///
    /// # Errors
    /// When the list is mistaken, another process has the results, or they cannot be written.
    pub fn open(
        list: &Path,
        out_dir: &Path,
        command: &Command,
        program: Program,
        own_cores: usize,
        retry: u32,
        cancel: &Cancel,
    ) -> Result<Dispatch, BatchError> {
        let started = Instant::now();
        let (jobs, results) = open_batch(list, out_dir, Shard::ALL, command)?;
        let list = absolute(list)?;
        let settings = Settings {
            out_dir: absolute(out_dir)?,
            folder: list.parent().unwrap_or(Path::new("/")).to_owned(),
            program,
            most_jobs: own_cores,
            cores: own_cores,
            budget: Budget::NONE,
            retry,
            fail_fast: false,
        };
        let mut dispatch = Dispatch {
            list_sha256: hash_of(&list)?,
            list,
            watch: Watch::new(jobs.len(), jobs.iter().map(work_of).sum(), Verbosity::Normal),
            outcomes: vec![Outcome::NotStarted; jobs.len()],
            predicted: vec![None; jobs.len()],
            settings,
            jobs,
            results,
            started,
        };
        dispatch.skip_what_is_done(cancel)?;
        Ok(dispatch)
    }

    fn skip_what_is_done(&mut self, cancel: &Cancel) -> Result<(), BatchError> {
        for i in 0..self.jobs.len() {
            let job = &self.jobs[i];
            let Some((record, refreshed)) = self.results.done_before(job, &self.settings.out_dir, cancel)?
            else {
                continue;
            };
            if refreshed {
                self.results.append(record.clone())?;
            }
            let text = format!("{}: {} already", job.output.display(), record.state.name());
            self.watch.end(i, work_of(job), &text);
            self.outcomes[i] = Outcome::Skipped(record);
        }
        Ok(())
    }

    /// Numbers of the jobs that nothing has come of yet.
    fn to_do(&self) -> Vec<usize> {
        let is_to_do = |i: &usize| matches!(self.outcomes[*i], Outcome::NotStarted);
        (0..self.jobs.len()).filter(is_to_do).collect()
    }

    /// What the jobs will take that are to be done, where all machines have `cores` together. Those that cannot even begin, such
    /// as one with a damaged model, have failed then.
    ///
    /// # Errors
    /// When results cannot be written, or `cancel` is requested.
    pub fn demands(&mut self, cores: usize, cancel: &Cancel) -> Result<Vec<Demand>, BatchError> {
        let (began, to_do) = (Instant::now(), self.to_do());
        let jobs: Vec<&BatchJob> = to_do.iter().map(|i| &self.jobs[*i]).collect();
        let found = needs(&self.settings, &jobs, cancel)?;
        let mut demands = Vec::new();
        for (position, need) in to_do.iter().copied().zip(found) {
            match need {
                Ok(bytes) => {
                    self.predicted[position] = Some(bytes);
                    let job = &self.jobs[position];
                    let threads = threads_of(job, cores, to_do.len(), bytes, Budget::NONE);
                    demands.push(Demand { position, output: job.output.clone(), bytes, threads });
                }
                Err(stopped) => {
                    let record =
                        Record::failed(&self.jobs[position], Tries { attempts: 1, began }, stopped, None);
                    self.take(position, record)?;
                }
            }
        }
        Ok(demands)
    }

    /// What another machine has to know to do a job on `threads` threads.
    pub fn errand(&self, position: usize, threads: usize) -> Errand {
        Errand {
            list: self.list.clone(),
            list_sha256: self.list_sha256.clone(),
            position,
            out_dir: self.settings.out_dir.clone(),
            known: self.results.of(&self.jobs[position].output).cloned(),
            threads,
            retry: self.settings.retry,
        }
    }

    /// Writes down what has come of a job; tells whether its file is there.
    ///
    /// # Errors
    /// When results cannot be written.
    pub fn take(&mut self, position: usize, record: Record) -> Result<bool, BatchError> {
        self.results.note(&self.jobs[position], record.clone())?;
        self.watch.end(position, work_of(&self.jobs[position]), &line_of(&record));
        let done = record.state == State::Done;
        self.outcomes[position] = Outcome::Ended(record);
        Ok(done)
    }

    /// Writes down that a job was tried so often, and that nothing came back of it.
    ///
    /// # Errors
    /// When results cannot be written.
    pub fn give_up(
        &mut self,
        position: usize,
        attempts: u32,
        exit_code: u8,
        error: String,
    ) -> Result<(), BatchError> {
        let stopped = Stopped { error, exit_code, may_pass: false, peak_rss_bytes: None };
        let tries = Tries { attempts, began: Instant::now() };
        let record = Record::failed(&self.jobs[position], tries, stopped, self.predicted[position]);
        self.take(position, record).map(drop)
    }

    /// Says something that is no end of a job.
    pub fn note(&self, text: &str) {
        self.watch.note(text);
    }

    /// What came of all jobs so far.
    pub fn summary(&mut self) -> Summary {
        self.watch.close();
        let jobs = self.jobs.iter().zip(&self.outcomes);
        let jobs = jobs.map(|(job, outcome)| (job.line, job.output.clone(), outcome.clone()));
        Summary { jobs: jobs.collect(), seconds: self.started.elapsed().as_secs_f64() }
    }
}
