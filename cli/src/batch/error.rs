//! Errors of a batch as a whole. What goes wrong with a job is in its record.

use std::io;
use std::path::{Path, PathBuf};

use qsf_converter::ConvertError;
use qsf_format::{Failure, FormatError};

/// Why a batch was not done, or not all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The list of jobs is mistaken; nothing was done.
    #[error("{}", mistakes(problems))]
    Manifest {
        /// Every mistake that was found.
        problems: Vec<Problem>,
    },
    /// Another process writes to the same results.
    #[error("{}: another qsf-convert --batch is writing here: wait for it, or choose another --out-dir", path.display())]
    Busy {
        /// The file of results.
        path: PathBuf,
    },
    /// A line of the results is none.
    #[error(
        "{}: line {line} is no record of a job ({why}): remove the line, or the file to do all jobs again",
        path.display()
    )]
    Results {
        /// The file of results.
        path: PathBuf,
        /// Its line.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Some jobs failed or missed their limits.
    #[error("{failed} of {total} jobs failed")]
    JobsFailed {
        /// Jobs without a file that is as it was to be.
        failed: usize,
        /// All jobs.
        total: usize,
    },
    /// The user or the system asked to stop.
    #[error("interrupted: {done} of {total} jobs are done, and the same command does the others")]
    Interrupted {
        /// Jobs that are done.
        done: usize,
        /// All jobs.
        total: usize,
    },
    /// The operating system refused an operation.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// Something else is in the place of the results.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Inputs could not be compared with what they were.
    #[error(transparent)]
    Convert(#[from] ConvertError),
}

/// One mistake in a list of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The list.
    pub file: PathBuf,
    /// Where in it, counted from 1.
    pub line: usize,
    /// The key that is mistaken, if it is one.
    pub key: Option<String>,
    /// What is wrong, and what to do.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: line {}", self.file.display(), self.line)?;
        if let Some(key) = &self.key {
            write!(f, ", key \"{key}\"")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Mistakes that are shown of a list that is full of them.
const MOST_SHOWN: usize = 20;

fn mistakes(problems: &[Problem]) -> String {
    let mut shown: Vec<String> = problems.iter().take(MOST_SHOWN).map(ToString::to_string).collect();
    if problems.len() > MOST_SHOWN {
        shown.push(format!("and {} more", problems.len() - MOST_SHOWN));
    }
    shown.join("; ")
}

impl BatchError {
    /// An error of the operating system at `path`.
    pub(super) fn io(path: &Path, action: &'static str, source: io::Error) -> BatchError {
        BatchError::Io { path: path.to_owned(), action, source }
    }

    /// The class, which decides the exit code.
    pub fn failure(&self) -> Failure {
        match self {
            BatchError::Manifest { .. } => Failure::Usage,
            BatchError::Busy { .. } | BatchError::Results { .. } => Failure::BadInput,
            BatchError::JobsFailed { .. } => Failure::LimitsMissed,
            BatchError::Interrupted { .. } => Failure::Interrupted,
            BatchError::Io { source, .. } => Failure::of_io(source),
            BatchError::Format(error) => error.failure(),
            BatchError::Convert(error) => error.failure(),
        }
    }
}
