//! Progress and interruption of long work, without deciding how either is shown or caused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Result, RuntimeError};

/// Receives the progress of long work. Called from several threads.
pub trait Progress: Sync {
    /// Work of `total` units begins.
    fn begin(&self, what: &str, total: u64);

    /// `units` more are done.
    fn advance(&self, units: u64);

    /// The work begun last has ended.
    fn end(&self);

    /// Something that the user should know, in one line.
    fn note(&self, _text: &str) {}

    /// Something that will disappoint the user, in one line.
    fn warn(&self, text: &str) {
        self.note(text);
    }

    /// Something that only who looks for a mistake wants to know, in one line.
    fn detail(&self, _text: &str) {}
}

/// Progress that nobody watches.
pub struct Unwatched;

impl Progress for Unwatched {
    fn begin(&self, _what: &str, _total: u64) {}

    fn advance(&self, _units: u64) {}

    fn end(&self) {}
}

/// A request to stop, set by one thread and seen by others.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks everyone who checks this flag to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Takes the request back: what it was about has stopped, and something else begins.
    pub fn withdraw(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// To be called between units of work.
    ///
    /// # Errors
    /// [`RuntimeError::Interrupted`] once a stop was requested.
    pub fn check(&self) -> Result<()> {
        if self.is_requested() { Err(RuntimeError::Interrupted) } else { Ok(()) }
    }
}
