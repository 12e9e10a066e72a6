//! Long work on a thread of its own. The thread of Python waits for it without the interpreter's lock, hears Ctrl-C, and calls
//! callbacks, so that these run where their caller is.

use std::any::Any;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use qsf_runtime::RuntimeError;
use qsf_runtime::progress::{Cancel, Progress};

use crate::errors::to_python;

/// So often signals are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Progress is told at most so often.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What work tells while it is done.
pub enum Event {
    /// `done` of `total` units of the stage `what`.
    Progress {
        /// The stage.
        what: String,
        /// Units that are done.
        done: u64,
        /// All units.
        total: u64,
    },
    /// Something that the user should know.
    Note(String),
    /// The next piece of a text.
    Text(String),
}

/// The end of the line in the thread that works. One event waits at most: who listens slowly slows the work down.
pub struct Teller {
    events: SyncSender<Event>,
    stage: Mutex<Stage>,
}

/// Progress that is made.
struct Stage {
    what: String,
    done: u64,
    total: u64,
    told: Instant,
}

impl Teller {
    /// A piece of text.
    ///
    /// # Errors
    /// When nobody listens any more.
    pub fn text(&self, piece: String) -> Result<(), RuntimeError> {
        self.events.send(Event::Text(piece)).map_err(|_| RuntimeError::Interrupted)
    }

    /// Nobody may be listening any more; then the work is about to be stopped.
    fn tell(&self, stage: &Stage) {
        let _ = self.events.send(Event::Progress {
            what: stage.what.clone(),
            done: stage.done,
            total: stage.total,
        });
    }

    fn with_stage(&self, change: impl FnOnce(&mut Stage)) {
        change(&mut self.stage.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Progress for Teller {
    fn begin(&self, what: &str, total: u64) {
        self.with_stage(|stage| {
            *stage = Stage { what: what.to_owned(), done: 0, total, told: Instant::now() };
            self.tell(stage);
        });
    }

    fn advance(&self, units: u64) {
        self.with_stage(|stage| {
            stage.done += units;
            if stage.told.elapsed() >= TELL_EVERY {
                stage.told = Instant::now();
                self.tell(stage);
            }
        });
    }

    fn end(&self) {
        self.with_stage(|stage| self.tell(stage));
    }

    fn note(&self, text: &str) {
        let _ = self.events.send(Event::Note(text.to_owned()));
    }
}

/// Work under way.
pub struct Work<T> {
    /// `None` when nobody listens any more.
    events: Mutex<Option<Receiver<Event>>>,
    cancel: Cancel,
    thread: Option<JoinHandle<anyhow::Result<T>>>,
}

impl<T: Send + 'static> Work<T> {
    /// Starts `work`, which shall stop soon once its flag is set.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(
        work: impl FnOnce(&Teller, &Cancel) -> anyhow::Result<T> + Send + 'static,
    ) -> PyResult<Work<T>> {
        let (sender, receiver) = sync_channel(1);
        let cancel = Cancel::default();
        let flag = cancel.clone();
        let stage = Stage { what: String::new(), done: 0, total: 0, told: Instant::now() };
        let teller = Teller { events: sender, stage: Mutex::new(stage) };
        let thread = thread::Builder::new().name("qsf".into()).spawn(move || work(&teller, &flag))?;
        Ok(Work { events: Mutex::new(Some(receiver)), cancel, thread: Some(thread) })
    }

    /// What it tells next; `None` when it is over.
    ///
    /// # Errors
    /// What a handler of a signal raises, which for Ctrl-C is `KeyboardInterrupt`. Then the work has been stopped.
    pub fn next(&mut self, py: Python<'_>) -> PyResult<Option<Event>> {
        loop {
            if let Err(raised) = py.check_signals() {
                self.stop(py);
                return Err(raised);
            }
            let events = &self.events;
            let heard = py.detach(|| {
                let events = events.lock().unwrap_or_else(PoisonError::into_inner);
                events.as_ref().map_or(Err(RecvTimeoutError::Disconnected), |e| e.recv_timeout(LOOK_EVERY))
            });
            match heard {
                Ok(event) => return Ok(Some(event)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// What came of it, once it is over.
    ///
    /// # Errors
    /// Its error as an exception.
    pub fn finish(&mut self, py: Python<'_>) -> PyResult<T> {
        let Some(thread) = self.thread.take() else {
            return Err(PyRuntimeError::new_err("this was stopped"));
        };
        match py.detach(|| thread.join()) {
            Ok(result) => result.map_err(|error| to_python(py, &error)),
            Err(panic) => {
                Err(to_python(py, &anyhow!("this is a fault of qsf, please report it: {}", said(&*panic))))
            }
        }
    }

    /// Asks it to stop, and waits until it has: what it leaves on disk is then as it stays.
    pub fn stop(&mut self, py: Python<'_>) {
        self.cancel.request();
        // First, as the work may be waiting for somebody to listen.
        *self.events.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) = self.thread.take() {
            // An exception is on its way already, or nobody is there to hear of another.
            let _ = py.detach(|| thread.join());
        }
    }

    /// Waits for it, and gives everything that it tells to `hear`, whose exception stops it.
    ///
    /// # Errors
    /// Its own error, that of `hear`, or that of the handler of a signal.
    pub fn wait(mut self, py: Python<'_>, mut hear: impl FnMut(Event) -> PyResult<()>) -> PyResult<T> {
        while let Some(event) = self.next(py)? {
            if let Err(raised) = hear(event) {
                self.stop(py);
                return Err(raised);
            }
        }
        self.finish(py)
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        self.cancel.request();
    }
}

/// Passes progress to a callback, and notes to the logger `qsf`.
///
/// # Errors
/// What either raises.
pub fn report(py: Python<'_>, event: Event, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match (event, progress) {
        (Event::Progress { what, done, total }, Some(progress)) => {
            progress.call1((what, done, total))?;
        }
        (Event::Note(text), _) => {
            let logger = py.import("logging")?.call_method1("getLogger", ("qsf",))?;
            logger.call_method1("info", ("%s", text))?;
        }
        _ => {}
    }
    Ok(())
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}
