//! What a user sees of a batch under way: on a terminal a line for every job that runs and one for all, elsewhere a line of text
//! for every job that ends, and one every half minute for those in work.

use std::collections::{BTreeMap, HashMap};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use qsf_format::printable::printable;

use crate::progress::{REDRAW, Verbosity, clock, log_interval};

const TOTAL_WITH_ETA: &str = "{msg:24!} [{bar:30}] {percent:>3}%  elapsed {elapsed}, left {eta}";

/// Lines on stderr.
pub(super) struct Watch {
    /// `None` where stderr is no terminal.
    bars: Option<Bars>,
    /// Jobs in work, for the lines of a log.
    in_work: BTreeMap<usize, InWork>,
    verbosity: Verbosity,
    /// Whether anything is said at all.
    silent: bool,
    ended: usize,
    total: usize,
    began: Instant,
    logged: Instant,
    log_every: Duration,
}

/// A job in work.
struct InWork {
    name: String,
    what: String,
    done: u64,
    total: u64,
}

struct Bars {
    all: MultiProgress,
    total: ProgressBar,
    jobs: HashMap<usize, ProgressBar>,
}

impl Watch {
    /// Of `jobs` jobs with `work` units together.
    pub fn new(jobs: usize, work: u64, verbosity: Verbosity) -> Watch {
        let shown = verbosity != Verbosity::Quiet && std::io::stderr().is_terminal();
        let bars = shown.then(|| {
            let all = MultiProgress::new();
            let style = style("{msg:24!} [{bar:30}] {percent:>3}%  elapsed {elapsed}");
            let total = all.add(ProgressBar::new(work).with_style(style));
            total.enable_steady_tick(REDRAW);
            Bars { all, total, jobs: HashMap::new() }
        });
        let watch = Watch { bars, verbosity, silent: false, total: jobs, ..Watch::silent() };
        watch.count();
        watch
    }

    /// For jobs that somebody else tells about.
    pub fn silent() -> Watch {
        Watch {
            bars: None,
            in_work: BTreeMap::new(),
            verbosity: Verbosity::Normal,
            silent: true,
            ended: 0,
            total: 0,
            began: Instant::now(),
            logged: Instant::now(),
            log_every: log_interval(),
        }
    }

    /// Work of `total` units begins in a job.
    pub fn begin(&mut self, job: usize, name: &str, what: &str, total: u64) {
        let (work_name, work_what) = (name.to_owned(), what.to_owned());
        self.in_work.insert(job, InWork { name: work_name, what: work_what, done: 0, total });
        let Some(bars) = &mut self.bars else { return };
        let style = style("{msg:24!} [{bar:30}] {percent:>3}%  {prefix}");
        let bar = bars.jobs.entry(job).or_insert_with(|| {
            bars.all.insert_before(&bars.total, ProgressBar::new(total).with_style(style))
        });
        bar.set_message(printable(name).to_string());
        bar.set_prefix(what.to_owned());
        bar.set_position(0);
        bar.set_length(total);
    }

    /// So many more units are done in a job.
    pub fn advance(&mut self, job: usize, units: u64) {
        if let Some(work) = self.in_work.get_mut(&job) {
            work.done += units;
        }
        if let Some(bar) = self.bars.as_ref().and_then(|bars| bars.jobs.get(&job)) {
            bar.inc(units);
        }
    }

    /// Says something that is no end of a job.
    pub fn note(&self, text: &str) {
        if self.verbosity != Verbosity::Quiet {
            self.line(&format!("note: {text}"));
        }
    }

    /// To be called often: says every half minute in a log what is in work.
    pub fn log(&mut self) {
        let due = self.logged.elapsed() >= self.log_every;
        if !due || self.silent || self.bars.is_some() || self.verbosity == Verbosity::Quiet {
            return;
        }
        self.logged = Instant::now();
        let part = |work: &InWork| 100 * work.done.min(work.total) / work.total.max(1);
        let work = |work: &InWork| format!("{} ({} {} %)", work.name, work.what, part(work));
        let in_work: Vec<String> = self.in_work.values().map(work).collect();
        let (ended, total, elapsed) = (self.ended, self.total, clock(self.began.elapsed()));
        self.line(&format!(
            "{ended} of {total} jobs ended, elapsed {elapsed}; in work: {}",
            in_work.join(", ")
        ));
    }

    /// A job has ended, and with it so many units of all.
    pub fn end(&mut self, job: usize, work: u64, text: &str) {
        self.ended += 1;
        self.in_work.remove(&job);
        if let Some(bars) = &mut self.bars {
            if let Some(bar) = bars.jobs.remove(&job) {
                bar.finish_and_clear();
                bars.all.remove(&bar);
            }
            bars.total.inc(work);
            // Before the first end there is nothing to tell it from.
            bars.total.set_style(style(TOTAL_WITH_ETA));
        }
        let digits = self.total.to_string().len();
        if self.verbosity != Verbosity::Quiet {
            self.line(&format!("[{:>digits$}/{}] {text}", self.ended, self.total));
        }
        self.count();
    }

    /// Takes the lines of progress away.
    pub fn close(&mut self) {
        if let Some(bars) = self.bars.take() {
            bars.jobs.values().for_each(ProgressBar::finish_and_clear);
            bars.total.finish_and_clear();
        }
    }

    fn count(&self) {
        if let Some(bars) = &self.bars {
            bars.total.set_message(format!("{} of {} jobs", self.ended, self.total));
        }
    }

    fn line(&self, text: &str) {
        if self.silent {
            return;
        }
        let print = || eprintln!("{}", printable(text));
        match &self.bars {
            Some(bars) => bars.all.suspend(print),
            None => print(),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).map(|style| style.progress_chars("=> "));
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}
