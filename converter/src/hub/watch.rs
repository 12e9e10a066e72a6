//! Whoever waits for a download.

use qsf_runtime::progress::{Cancel, Progress};

/// Sees how far a download is, reads what happens, may stop it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Bytes of the files.
    pub progress: &'a dyn Progress,
    /// Called with what a user should know although it is no error: another attempt, a wait.
    pub notice: &'a dyn Fn(&str),
    /// The wish to stop.
    pub cancel: &'a Cancel,
}
