//! Errors of loading and running models.

use std::io;
use std::path::{Path, PathBuf};

use qsf_cpu::OutOfMemory;
use qsf_format::{Failure, FormatError};

/// Why a model could not be loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// A QSF file is damaged, missing or unsupported.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The operating system refused an operation.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as in "cannot {action}".
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// An input file is malformed or contradicts itself.
    #[error("{}: {place}: expected {expected}, found {found}", path.display())]
    BadInput {
        /// The file.
        path: PathBuf,
        /// Tensor, field or offset.
        place: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A well-formed input that this version cannot run.
    #[error("{}: {what} is not supported; {supported}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The unsupported part.
        what: String,
        /// What is supported, or what to do.
        supported: String,
    },
    /// The request cannot be carried out on this model: an empty prompt, a context that is too short.
    #[error("{0}")]
    Request(String),
    /// Memory for a named purpose could not be had.
    #[error("not enough memory for the {what}: {bytes} bytes")]
    OutOfMemory {
        /// The purpose.
        what: String,
        /// How much was asked for.
        bytes: u64,
    },
    /// A model cannot run within the memory that it was given.
    #[error(
        "{}: a RAM budget of {} is too small for a context of {context} tokens: a budget of {} is enough; \
         less is with a shorter context (-c, or prompt and -n), and without --ram-budget the system decides what stays in memory",
        path.display(), megabytes(*budget), megabytes(least.saturating_add(99_999) / 100_000 * 100_000)
    )]
    BudgetTooSmall {
        /// The file.
        path: PathBuf,
        /// Bytes that were given.
        budget: u64,
        /// Positions that were wanted.
        context: usize,
        /// Bytes that are enough for one token at a time.
        least: u64,
    },
    /// There is no graphics processor that can do what is asked for.
    #[error("no GPU: {why}")]
    NoGpu {
        /// Why.
        why: String,
    },
    /// The model computed something that is no number: its weights are broken.
    #[error("the model computed {what}: its weights are broken or overflow")]
    NotANumber {
        /// What, and where.
        what: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl RuntimeError {
    /// An error of the operating system at `path`.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> RuntimeError {
        RuntimeError::Io { path: path.to_owned(), action, source }
    }

    /// A contradiction in the input file `path`.
    pub fn bad_input(
        path: &Path,
        place: impl Into<String>,
        expected: impl ToString,
        found: impl ToString,
    ) -> RuntimeError {
        RuntimeError::BadInput {
            path: path.to_owned(),
            place: place.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// Something in the input file `path` that this version does not do, and what it does instead.
    pub fn unsupported(path: &Path, what: impl Into<String>, supported: impl Into<String>) -> RuntimeError {
        RuntimeError::Unsupported { path: path.to_owned(), what: what.into(), supported: supported.into() }
    }

    /// The class, which decides the exit code.
    pub fn failure(&self) -> Failure {
        match self {
            RuntimeError::Format(e) => e.failure(),
            RuntimeError::Io { source, .. } => Failure::of_io(source),
            RuntimeError::BadInput { .. } | RuntimeError::NotANumber { .. } => Failure::BadInput,
            RuntimeError::Unsupported { .. } | RuntimeError::NoGpu { .. } => Failure::Unsupported,
            RuntimeError::Request(_) => Failure::Usage,
            RuntimeError::OutOfMemory { .. } | RuntimeError::BudgetTooSmall { .. } => Failure::OutOfSpace,
            RuntimeError::Interrupted => Failure::Interrupted,
        }
    }
}

impl From<OutOfMemory> for RuntimeError {
    fn from(OutOfMemory { what, bytes }: OutOfMemory) -> RuntimeError {
        RuntimeError::OutOfMemory { what, bytes }
    }
}

/// Bytes as megabytes of 10^6.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Result with [`RuntimeError`].
pub type Result<T, E = RuntimeError> = std::result::Result<T, E>;
