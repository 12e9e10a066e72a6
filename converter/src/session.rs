//! What long work is done with, wherever it is done.

use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};

/// What every step of a conversion is handed.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    /// Runs models.
    pub cpu: &'a Cpu,
    /// The calibration text; empty without one.
    pub tokens: &'a [u32],
    /// Hears how far the work is.
    pub progress: &'a dyn Progress,
    /// The wish to stop.
    pub cancel: &'a Cancel,
}
