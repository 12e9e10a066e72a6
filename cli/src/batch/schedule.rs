//! Which job runs when: as many side by side as there are cores and memory for, in the order of the list.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use qsf_converter::{Result, rejected_path};
use qsf_format::{Failure, FormatError, human_bytes};
use qsf_runtime::progress::Cancel;

use super::budget::{Budget, UNKNOWN};
use super::child::{Child, Event, Program, crash};
use super::error::BatchError;
use super::fingerprint::SeenFile;
use super::growth::{Taken, Verdict, share_after, verdict};
use super::job::BatchJob;
use super::marker::Marker;
use super::protocol::{Report, Stopped};
use super::record::{Record, State, Tries};
use super::results::Results;
use super::summary::{Outcome, line_of};
use super::watch::Watch;

/// How often a batch looks whether it is to stop, and what its jobs take.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Jobs that are asked to stop are ended after so long: whoever asked the batch gives it five seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// The wait before a job is tried again; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// What holds for all jobs.
pub(super) struct Settings {
    /// Folder of the outputs.
    pub out_dir: PathBuf,
    /// Folder of the list: what jobs name is relative to it.
    pub folder: PathBuf,
    /// What the processes of jobs run.
    pub program: Program,
    pub most_jobs: usize,
    pub cores: usize,
    pub budget: Budget,
    pub retry: u32,
    pub fail_fast: bool,
}

/// A batch under way.
pub(super) struct Schedule<'a> {
    settings: &'a Settings,
    jobs: &'a [BatchJob],
    results: Results,
    cancel: &'a Cancel,
    watch: Watch,
    pending: VecDeque<Pending>,
    /// By the number of the job.
    running: BTreeMap<usize, Running>,
    /// Jobs that wait for memory, in the order in which they asked.
    asking: VecDeque<usize>,
    /// What is set aside for jobs that were put off, since they took more than was predicted.
    shares: HashMap<usize, u64>,
    outcomes: Vec<Outcome>,
    events: (Sender<Event>, Receiver<Event>),
    /// Texts that were hashed for one job, for the next.
    texts: HashMap<PathBuf, SeenFile>,
    stopped_at: Option<Instant>,
}

/// A job to start.
struct Pending {
    job: usize,
    attempt: u32,
    not_before: Instant,
}

/// A job with its process.
struct Running {
    child: Child,
    attempt: u32,
    inputs: Vec<SeenFile>,
    /// Memory that is set aside for it.
    reserved: u64,
    predicted: Option<u64>,
    began: bool,
    peak: Option<u64>,
    /// It was ended to make room, and is to be done later.
    put_off: bool,
    /// Its last report.
    outcome: Option<Report>,
}

impl<'a> Schedule<'a> {
    pub fn new(
        settings: &'a Settings,
        jobs: &'a [BatchJob],
        results: Results,
        watch: Watch,
        cancel: &'a Cancel,
    ) -> Schedule<'a> {
        Schedule {
            settings,
            jobs,
            results,
            cancel,
            watch,
            pending: VecDeque::new(),
            running: BTreeMap::new(),
            asking: VecDeque::new(),
            shares: HashMap::new(),
            outcomes: vec![Outcome::NotStarted; jobs.len()],
            events: channel(),
            texts: HashMap::new(),
            stopped_at: None,
        }
    }

    /// Does all jobs that are not done.
    ///
    /// # Errors
    /// When results cannot be written; jobs under way are ended then.
    pub fn run(mut self) -> std::result::Result<Vec<Outcome>, BatchError> {
        let done = self.skip_what_is_done().and_then(|()| self.do_the_others());
        for running in self.running.values_mut() {
            running.child.kill();
        }
        for (_, running) in std::mem::take(&mut self.running) {
            // Its locks are free when it has gone.
            let _ = running.child.end();
        }
        self.watch.close();
        done.map(|()| self.outcomes)
    }

    fn skip_what_is_done(&mut self) -> std::result::Result<(), BatchError> {
        let jobs = self.jobs;
        for (i, job) in jobs.iter().enumerate().filter(|(_, job)| job.missing.is_empty()) {
            if self.cancel.is_requested() {
                return Ok(());
            }
            match self.results.done_before(job, &self.settings.out_dir, self.cancel) {
                Ok(Some((record, refreshed))) => {
                    // A batch may have been killed between the record and the end of the marker.
                    Marker::of(&self.settings.out_dir.join(&job.output)).remove();
                    if refreshed {
                        self.results.append(record.clone())?;
                    }
                    self.watch.end(
                        i,
                        work_of(job),
                        &format!("{}: {} already", job.output.display(), record.state.name()),
                    );
                    self.outcomes[i] = Outcome::Skipped(record);
                }
                Ok(None) => {
                    self.pending.push_back(Pending { job: i, attempt: 1, not_before: Instant::now() });
                }
                // Interrupted while it hashed.
                Err(error) => return if self.cancel.is_requested() { Ok(()) } else { Err(error.into()) },
            }
        }
        // Said before hours of work, not behind them.
        for (i, job) in jobs.iter().enumerate() {
            if let Some(stopped) = job.cannot_begin() {
                let tries = Tries { attempts: 0, began: Instant::now() };
                self.end(i, Record::failed(job, tries, stopped, None))?;
            }
        }
        Ok(())
    }

    fn do_the_others(&mut self) -> std::result::Result<(), BatchError> {
        let mut looked = Instant::now();
        while !(self.pending.is_empty() && self.running.is_empty()) {
            if self.cancel.is_requested() && self.stopped_at.is_none() {
                self.stop();
            }
            if self.stopped_at.is_some_and(|at| at.elapsed() > PATIENCE) {
                self.running.values_mut().for_each(|running| running.child.kill());
            }
            self.start_jobs()?;
            self.admit();
            match self.events.1.recv_timeout(LOOK_EVERY) {
                Ok(Event::Said(job, report)) => self.hear(job, report),
                Ok(Event::Closed(job)) => self.close(job)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                for running in self.running.values_mut() {
                    running.peak = running.child.peak().or(running.peak);
                }
                self.watch_growth();
                self.watch.log();
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.stopped_at = Some(Instant::now());
        self.pending.clear();
        self.running.values_mut().for_each(|running| running.child.stop());
    }

    /// Memory that is set aside.
    fn reserved(&self) -> u64 {
        self.running.values().map(|running| running.reserved).fold(0, u64::saturating_add)
    }

    /// Starts jobs while there are places for them. One that waits for memory is not overtaken.
    fn start_jobs(&mut self) -> std::result::Result<(), BatchError> {
        loop {
            let room = self.running.len() < self.settings.most_jobs
                && self.settings.budget.allows(self.reserved().saturating_add(UNKNOWN));
            let free = self.running.is_empty() || (room && self.asking.is_empty());
            let ready = self.pending.iter().position(|pending| pending.not_before <= Instant::now());
            let Some(pending) = ready.filter(|_| free).and_then(|at| self.pending.remove(at)) else {
                return Ok(());
            };
            let (job, attempt, began) = (pending.job, pending.attempt, Instant::now());
            match self.start(job, attempt) {
                Ok(running) => {
                    self.running.insert(job, running);
                }
                Err((exit_code, error)) => {
                    let stopped = Stopped { error, exit_code, may_pass: false, peak_rss_bytes: None };
                    let record =
                        Record::failed(&self.jobs[job], Tries { attempts: attempt, began }, stopped, None);
                    self.end(job, record)?;
                }
            }
        }
    }

    /// Starts the process of a job. What an earlier one left under the names of its files is out of date, and goes.
    fn start(&mut self, job: usize, attempt: u32) -> std::result::Result<Running, (u8, String)> {
        let settings = self.settings;
        let force = self.jobs[job].force;
        let output = settings.out_dir.join(&self.jobs[job].output);
        let io = |error: io::Error, path: &Path, action: &str| {
            (Failure::of_io(&error).exit_code(), format!("{}: cannot {action}: {error}", path.display()))
        };
        let inputs = self.texts_of(job).map_err(|error| (error.failure().exit_code(), error.to_string()))?;
        if let Some(folder) = output.parent() {
            fs::create_dir_all(folder).map_err(|e| io(e, folder, "make"))?;
        }
        let in_the_way = |error: FormatError| (error.failure().exit_code(), error.to_string());
        let marker = Marker::of(&output);
        let begun = marker.is_set().map_err(in_the_way)?;
        let state = self.results.of(&self.jobs[job].output).map(|record| record.state);
        for (path, is_ours) in [
            (output.clone(), begun || state == Some(State::Done)),
            (rejected_path(&output), begun || state == Some(State::Rejected)),
        ] {
            match if is_ours { fs::remove_file(&path) } else { Ok(()) } {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io(e, &path, "remove")),
                _ if !force && path.symlink_metadata().is_ok() => {
                    return Err(in_the_way(FormatError::Exists { path }));
                }
                _ => {}
            }
        }
        marker.set().map_err(in_the_way)?;
        let model_bytes = self.jobs[job].model_path.as_deref().map_or(0, bytes_of);
        // The last job has all cores: the one that still runs beside it leaves one idle when it ends.
        let side_by_side = settings.most_jobs.min(self.pending.len() + 1);
        let threads = settings.cores / side_by_side.min(settings.budget.jobs_of(model_bytes));
        let args = self.jobs[job].command_line(&output, threads.max(1));
        let child = Child::start(&settings.program, &args, &settings.folder, job, &self.events.0)
            .map_err(|e| io(e, &settings.program.path, "start"))?;
        Ok(Running {
            child,
            attempt,
            inputs,
            reserved: UNKNOWN,
            predicted: None,
            began: false,
            peak: None,
            put_off: false,
            outcome: None,
        })
    }

    /// The files that a job reads beside the model, with their hashes.
    fn texts_of(&mut self, job: usize) -> Result<Vec<SeenFile>> {
        let mut seen = Vec::new();
        for (role, path) in &self.jobs[job].inputs {
            let mut file = match self.texts.remove(path) {
                Some(file) => file,
                None => SeenFile::look(role, path, self.cancel)?,
            };
            if !file.is_unchanged(self.cancel)? {
                file = SeenFile::look(role, path, self.cancel)?;
            }
            self.texts.insert(path.clone(), file.clone());
            seen.push(SeenFile { role: role.clone(), ..file });
        }
        Ok(seen)
    }

    /// Lets jobs begin for which there is memory, in the order in which they have asked.
    fn admit(&mut self) {
        while let Some(&job) = self.asking.front() {
            let others: u64 = self.running.iter().filter(|(i, _)| **i != job).map(|(_, r)| r.reserved).sum();
            let nobody_began = !self.running.values().any(|running| running.began);
            let Some(running) = self.running.get_mut(&job) else {
                self.asking.pop_front();
                continue;
            };
            let share = self.shares.get(&job).copied().unwrap_or(0);
            let needs = running.predicted.unwrap_or(UNKNOWN).max(share);
            if !self.settings.budget.allows(needs) {
                // What waits beside takes little, but this takes more than there is at all.
                let most = human_bytes(self.settings.budget.bytes());
                running.outcome = Some(Report::Stopped(Stopped {
                    error: format!(
                        "it needs about {} of memory, and {most} are left of --ram",
                        human_bytes(needs)
                    ),
                    exit_code: Failure::OutOfSpace.exit_code(),
                    may_pass: false,
                    peak_rss_bytes: None,
                }));
                running.child.stop();
            } else if nobody_began || self.settings.budget.allows(others.saturating_add(needs)) {
                running.reserved = needs;
                running.began = true;
                running.child.go();
            } else {
                return;
            }
            self.asking.pop_front();
        }
    }

    /// Ends a job that takes what the others were promised. It goes on from its journal when there is room.
    fn watch_growth(&mut self) {
        let budget = self.settings.budget;
        let began = self.running.iter().filter(|(_, running)| running.began && !running.put_off);
        let taken = began.filter_map(|(job, running)| {
            let anonymous = running.child.anonymous()?;
            Some(Taken { job: *job, anonymous, reserved: running.reserved })
        });
        let taken: Vec<Taken> = taken.collect();
        let (Verdict::PutOff(job) | Verdict::TooLarge(job)) = verdict(budget, &taken) else { return };
        let anonymous = taken.iter().find(|taken| taken.job == job).map_or(0, |taken| taken.anonymous);
        let Some(running) = self.running.get_mut(&job) else { return };
        let (has, most) = (human_bytes(anonymous), human_bytes(budget.bytes()));
        if taken.len() == 1 {
            running.outcome = Some(Report::Stopped(Stopped {
                error: format!("it has grown to {has} of memory, and {most} are left of --ram: raise --ram"),
                exit_code: Failure::OutOfSpace.exit_code(),
                may_pass: false,
                peak_rss_bytes: None,
            }));
        } else {
            running.put_off = true;
            self.shares.insert(job, share_after(anonymous, budget));
            let name = self.jobs[job].output.display();
            let predicted = human_bytes(running.reserved);
            self.watch.note(&format!(
                "{name}: has grown to {has} of memory, and {predicted} were predicted; it is put off until there is room"
            ));
        }
        running.child.kill();
    }

    fn hear(&mut self, job: usize, report: Report) {
        let Some(running) = self.running.get_mut(&job) else { return };
        let name = self.jobs[job].output.display().to_string();
        match report {
            Report::Needs { bytes } => {
                running.predicted = Some(bytes);
                self.asking.push_back(job);
            }
            Report::Begin { what, total } => self.watch.begin(job, &name, &what, total),
            Report::Advance { units } => self.watch.advance(job, units),
            Report::Note { text } => self.watch.note(&format!("{name}: {text}")),
            // What the batch itself has said of it stays.
            last => running.outcome = running.outcome.take().or(Some(last)),
        }
    }

    /// The process of a job has ended.
    fn close(&mut self, job: usize) -> std::result::Result<(), BatchError> {
        let Some(running) = self.running.remove(&job) else { return Ok(()) };
        self.asking.retain(|asking| *asking != job);
        let tries = Tries { attempts: running.attempt, began: running.child.started };
        let peak = running.peak;
        let (status, said) = running.child.end();
        if running.put_off && !matches!(running.outcome, Some(Report::Finished(_))) {
            if self.stopped_at.is_some() {
                self.outcomes[job] = Outcome::Stopped;
            } else {
                self.pending.push_back(Pending { job, attempt: tries.attempts, not_before: Instant::now() });
            }
            return Ok(());
        }
        let stopped = match running.outcome {
            Some(Report::Finished(finished)) => {
                let Running { inputs, predicted, .. } = running;
                let record = Record::finished(&self.jobs[job], tries, *finished, inputs, predicted);
                return self.end(job, record);
            }
            Some(Report::Stopped(stopped)) => stopped,
            _ => {
                let (exit_code, error) = crash(&status, &said);
                Stopped { error, exit_code, may_pass: false, peak_rss_bytes: None }
            }
        };
        if self.stopped_at.is_some() {
            // It did not fail: it was not let.
            self.outcomes[job] = Outcome::Stopped;
            return Ok(());
        }
        if stopped.may_pass && tries.attempts <= self.settings.retry {
            let wait = FIRST_WAIT * 2u32.saturating_pow(tries.attempts - 1).min(64);
            let name = self.jobs[job].output.display();
            self.watch.note(&format!(
                "{name}: {}; trying again in {:.1} s",
                stopped.error,
                wait.as_secs_f64()
            ));
            let not_before = Instant::now() + wait;
            self.pending.push_front(Pending { job, attempt: tries.attempts + 1, not_before });
            return Ok(());
        }
        let peak_rss_bytes = stopped.peak_rss_bytes.or(peak);
        let stopped = Stopped { peak_rss_bytes, ..stopped };
        let record = Record::failed(&self.jobs[job], tries, stopped, running.predicted);
        self.end(job, record)
    }

    /// Writes down what came of a job.
    fn end(&mut self, job: usize, record: Record) -> std::result::Result<(), BatchError> {
        self.results.note(&self.jobs[job], record.clone())?;
        if self.jobs[job].missing.is_empty() {
            Marker::of(&self.settings.out_dir.join(&record.output)).remove();
        }
        self.watch.end(job, work_of(&self.jobs[job]), &line_of(&record));
        if record.state != State::Done && self.settings.fail_fast {
            self.pending.clear();
        }
        self.outcomes[job] = Outcome::Ended(record);
        Ok(())
    }
}

/// How much work a job is, for the time that is left: the bytes of its model.
pub(super) fn work_of(job: &BatchJob) -> u64 {
    job.model_path.as_deref().map_or(1, |path| bytes_of(path).max(1))
}

/// Bytes of a file, or of the files in a folder.
fn bytes_of(path: &Path) -> u64 {
    let size =
        |path: &Path| fs::metadata(path).map_or(0, |found| if found.is_file() { found.len() } else { 0 });
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| size(&entry.path())).sum(),
        Err(_) => size(path),
    }
}

#[cfg(test)]
mod tests;
