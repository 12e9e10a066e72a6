//! A progress bar with ETA on stderr: only when stderr is a terminal, so that logs stay clean.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use qsf_runtime::progress::Progress;

use crate::console::{is_quiet, note};

/// One line on stderr that shows what is being done, how far it is and when it will end.
#[derive(Debug, Default)]
pub struct ProgressLine {
    bar: Mutex<Option<ProgressBar>>,
}

impl ProgressLine {
    fn with(&self, action: impl FnOnce(&mut Option<ProgressBar>)) {
        action(&mut self.bar.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Progress for ProgressLine {
    fn begin(&self, what: &str, total: u64) {
        if is_quiet() || !std::io::stderr().is_terminal() {
            return;
        }
        let style =
            ProgressStyle::with_template("{msg:12} [{bar:30}] {percent:>3}%  elapsed {elapsed}, left {eta}")
                .map(|style| style.progress_chars("=> "))
                .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(total).with_style(style).with_message(what.to_owned());
        self.with(|slot| *slot = Some(bar));
    }

    fn advance(&self, units: u64) {
        self.with(|slot| {
            if let Some(bar) = slot {
                bar.inc(units);
            }
        });
    }

    fn end(&self) {
        self.with(|slot| {
            if let Some(bar) = slot.take() {
                bar.finish_and_clear();
            }
        });
    }

    /// On stderr, above the bar where there is one.
    fn note(&self, text: &str) {
        let print = || note(text);
        self.with(|slot| match slot {
            Some(bar) => bar.suspend(print),
            None => print(),
        });
    }
}
