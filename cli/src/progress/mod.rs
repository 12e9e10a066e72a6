//! Progress on stderr: a bar on a terminal, elsewhere a line for each stage and one every half minute, as a log can take them.

mod stage_log;
mod verbosity;

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use qsf_format::printable::printable;
use qsf_runtime::progress::Progress;

use crate::console::is_quiet;
use stage_log::StageLog;
pub use stage_log::{clock, log_interval};
pub use verbosity::{Verbosity, VerbosityArgs};

/// How often the times on a bar are drawn, whether something has happened or not.
pub const REDRAW: Duration = Duration::from_secs(1);

/// Says on stderr what is being done, how far it is and when it will end.
#[derive(Debug, Default)]
pub struct ProgressLine {
    verbosity: Verbosity,
    stage: Mutex<Option<Stage>>,
}

/// What is being done.
#[derive(Debug)]
struct Stage {
    what: String,
    began: Instant,
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Log(StageLog),
    Nothing,
}

impl ProgressLine {
    /// As much as `verbosity` asks for.
    pub fn new(verbosity: Verbosity) -> ProgressLine {
        ProgressLine { verbosity, stage: Mutex::default() }
    }

    /// What was asked for; `--quiet` of the program counts everywhere.
    fn verbosity(&self) -> Verbosity {
        if is_quiet() { Verbosity::Quiet } else { self.verbosity }
    }

    fn with(&self, action: impl FnOnce(&mut Option<Stage>)) {
        action(&mut self.stage.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Prints a line above the bar, where there is one.
    fn print(&self, line: &str) {
        let print = || eprintln!("{}", printable(line));
        self.with(|stage| match stage {
            Some(Stage { shown: Shown::Bar(bar), .. }) => bar.suspend(print),
            _ => print(),
        });
    }
}

impl Progress for ProgressLine {
    fn begin(&self, what: &str, total: u64) {
        let shown = match (self.verbosity(), std::io::stderr().is_terminal()) {
            (Verbosity::Quiet, _) => Shown::Nothing,
            (_, true) => Shown::Bar(bar(what, total)),
            (_, false) => Shown::Log(StageLog::begin(what, total)),
        };
        let stage = Stage { what: what.to_owned(), began: Instant::now(), shown };
        self.with(|slot| *slot = Some(stage));
    }

    fn advance(&self, units: u64) {
        self.with(|stage| match stage.as_ref().map(|stage| &stage.shown) {
            Some(Shown::Bar(bar)) => bar.inc(units),
            Some(Shown::Log(log)) => log.advance(units),
            Some(Shown::Nothing) | None => {}
        });
    }

    fn end(&self) {
        let mut ended = None;
        self.with(|slot| ended = slot.take());
        let Some(Stage { what, began, shown }) = ended else { return };
        if let Shown::Bar(bar) = shown {
            bar.finish_and_clear();
        }
        self.detail(&format!("{what}: done in {}", clock(began.elapsed())));
    }

    fn note(&self, text: &str) {
        if self.verbosity() != Verbosity::Quiet {
            self.print(&format!("note: {text}"));
        }
    }

    fn warn(&self, text: &str) {
        self.print(&format!("warning: {text}"));
    }

    fn detail(&self, text: &str) {
        if self.verbosity == Verbosity::Verbose {
            self.print(text);
        }
    }
}

fn bar(what: &str, total: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:12} [{bar:30}] {percent:>3}%  elapsed {elapsed}, left {eta}")
            .map(|style| style.progress_chars("=> "))
            .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style).with_message(what.to_owned());
    bar.enable_steady_tick(REDRAW);
    bar
}
