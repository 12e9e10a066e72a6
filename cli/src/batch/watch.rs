//! What a user sees of a batch under way: on a terminal a line for every job that runs and one for all, elsewhere a line of text
//! for every job that ends.

use std::collections::HashMap;
use std::io::IsTerminal;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use qsf_format::printable::printable;

const TOTAL_WITH_ETA: &str = "{msg:24!} [{bar:30}] {percent:>3}%  elapsed {elapsed}, left {eta}";

/// Lines on stderr.
pub(super) struct Watch {
    /// `None` where stderr is no terminal.
    bars: Option<Bars>,
    /// Whether anything is said at all.
    silent: bool,
    ended: usize,
    total: usize,
}

struct Bars {
    all: MultiProgress,
    total: ProgressBar,
    jobs: HashMap<usize, ProgressBar>,
}

impl Watch {
    /// Of `jobs` jobs with `work` units together.
    pub fn new(jobs: usize, work: u64) -> Watch {
        let bars = std::io::stderr().is_terminal().then(|| {
            let all = MultiProgress::new();
            let style = style("{msg:24!} [{bar:30}] {percent:>3}%  elapsed {elapsed}");
            let total = all.add(ProgressBar::new(work).with_style(style));
            Bars { all, total, jobs: HashMap::new() }
        });
        let watch = Watch { bars, silent: false, ended: 0, total: jobs };
        watch.count();
        watch
    }

    /// For jobs that somebody else tells about.
    pub fn silent() -> Watch {
        Watch { bars: None, silent: true, ended: 0, total: 0 }
    }

    /// Work of `total` units begins in a job.
    pub fn begin(&mut self, job: usize, name: &str, what: &str, total: u64) {
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
    pub fn advance(&self, job: usize, units: u64) {
        if let Some(bar) = self.bars.as_ref().and_then(|bars| bars.jobs.get(&job)) {
            bar.inc(units);
        }
    }

    /// Says something that is no end of a job.
    pub fn note(&self, text: &str) {
        self.line(&format!("note: {text}"));
    }

    /// A job has ended, and with it so many units of all.
    pub fn end(&mut self, job: usize, work: u64, text: &str) {
        self.ended += 1;
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
        self.line(&format!("[{:>digits$}/{}] {text}", self.ended, self.total));
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
