//! What jobs will take, before they run: each opens its model in a process of its own, says what it will need, and ends.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use qsf_format::human_bytes;
use qsf_format::printable::printable;
use qsf_runtime::progress::Cancel;
use serde_json::{Value, json};

use super::budget::Budget;
use super::child::{Child, Event, crash};
use super::error::BatchError;
use super::job::BatchJob;
use super::protocol::{Report, Stopped};
use super::schedule::Settings;
use crate::console::table;
use crate::json_document::document;

/// How often it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a job will take, or why it cannot be done.
pub(super) type Need = Result<u64, Stopped>;

/// The memory that each of `jobs` will need at its peak, in bytes.
///
/// # Errors
/// When a process cannot be started, or `cancel` is requested.
pub(super) fn needs(
    settings: &Settings,
    jobs: &[&BatchJob],
    cancel: &Cancel,
) -> Result<Vec<Need>, BatchError> {
    let (sender, events) = channel();
    let mut pending: VecDeque<usize> = (0..jobs.len()).filter(|i| jobs[*i].missing.is_empty()).collect();
    let mut running: BTreeMap<usize, Child> = BTreeMap::new();
    let mut found: Vec<Option<Need>> = jobs.iter().map(|job| job.cannot_begin().map(Err)).collect();
    while !(pending.is_empty() && running.is_empty()) {
        if cancel.is_requested() {
            // They have begun nothing that could be half done.
            running.values_mut().for_each(Child::kill);
            for child in running.into_values() {
                let _ = child.end();
            }
            return Err(BatchError::Interrupted { done: 0, total: jobs.len() });
        }
        while running.len() < settings.most_jobs
            && let Some(job) = pending.pop_front()
        {
            let output = settings.out_dir.join(&jobs[job].output);
            let words = jobs[job].command_line(&output, 1);
            let child = Child::start(&settings.program, &words, &settings.folder, job, &sender)
                .map_err(|e| BatchError::io(&settings.program.path, "start", e))?;
            running.insert(job, child);
        }
        match events.recv_timeout(LOOK_EVERY) {
            Ok(Event::Said(job, Report::Needs { bytes })) => {
                found[job] = Some(Ok(bytes));
                if let Some(child) = running.get_mut(&job) {
                    child.stop();
                }
            }
            Ok(Event::Said(job, Report::Stopped(stopped))) => {
                found[job] = found[job].take().or(Some(Err(stopped)));
            }
            Ok(Event::Closed(job)) => {
                let Some(child) = running.remove(&job) else { continue };
                let (status, said) = child.end();
                let crashed = || {
                    let (exit_code, error) = crash(&status, &said);
                    Stopped { error, exit_code, may_pass: false, peak_rss_bytes: None }
                };
                found[job] = found[job].take().or_else(|| Some(Err(crashed())));
            }
            Ok(Event::Said(..)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// The threads that each job will have: those that it names, else as many as there are cores for it beside the others.
pub(super) fn threads_of(
    job: &BatchJob,
    cores: usize,
    most_jobs: usize,
    needs: u64,
    budget: Budget,
) -> usize {
    job.threads.unwrap_or_else(|| (cores / most_jobs.min(budget.jobs_of(needs)).max(1)).max(1))
}

/// What a batch would do.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// Of each job what is to be expected.
    pub jobs: Vec<Expected>,
    /// Memory that jobs may take together; `None` where there is no bound.
    pub ram_bytes: Option<u64>,
}

/// What is to be expected of a job.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Its line in the list.
    pub line: usize,
    /// Its file.
    pub output: PathBuf,
    /// `skipped`, `to do`, or `fails`.
    pub state: &'static str,
    /// Peak of its memory.
    pub bytes: Option<u64>,
    /// Threads that it will have.
    pub threads: Option<usize>,
    /// Why it cannot be done, and the exit code of that.
    pub error: Option<(String, u8)>,
}

impl Forecast {
    /// Jobs that cannot be done.
    pub fn failing(&self) -> usize {
        self.jobs.iter().filter(|job| job.error.is_some()).count()
    }

    /// For people.
    pub fn to_table(&self) -> String {
        let rows = self.jobs.iter().map(|job| {
            vec![
                job.output.display().to_string(),
                job.state.to_owned(),
                job.bytes.map_or("-".into(), human_bytes),
                job.threads.map_or("-".into(), |threads| threads.to_string()),
            ]
        });
        let mut text = table(&["output", "state", "peak memory", "threads"], 2, rows);
        for job in &self.jobs {
            if let Some((error, exit_code)) = &job.error {
                let line =
                    format!("{} (line {}): exit code {exit_code}: {error}", job.output.display(), job.line);
                text += &format!("\n{}", printable(&line));
            }
        }
        let to_do = self.jobs.iter().filter(|job| job.state == TO_DO).count();
        let ram =
            self.ram_bytes.map_or(String::new(), |bytes| format!(", in {} of memory", human_bytes(bytes)));
        text + &format!("\n{} jobs: {to_do} to do{ram}\n", self.jobs.len())
    }

    /// What `--json` prints: all jobs with what they will take.
    pub fn to_json(&self) -> Value {
        let jobs = self.jobs.iter().map(|job| {
            json!({
                "line": job.line,
                "output": job.output,
                "state": job.state.replace(' ', "_"),
                "predicted_peak_rss_bytes": job.bytes,
                "threads": job.threads,
                "error": job.error.as_ref().map(|(error, _)| error),
                "exit_code": job.error.as_ref().map_or(0, |(_, exit_code)| *exit_code),
            })
        });
        let (jobs, total) = (jobs.collect::<Vec<_>>(), self.jobs.len());
        document("batch_forecast", json!({ "jobs": jobs, "total": total, "ram_bytes": self.ram_bytes }))
    }
}

pub(super) const SKIPPED: &str = "skipped";
pub(super) const TO_DO: &str = "to do";
pub(super) const FAILS: &str = "fails";
