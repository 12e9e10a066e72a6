//! What went wrong, as scripts see it: every error of the project falls into one of these classes, and the exit codes
//! of all binaries are stable.

use std::io;

/// Class of a failure; [`Failure::exit_code`] is the process exit code of every binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The request itself is wrong: flags, values, an output that exists.
    Usage,
    /// An input is missing, malformed or damaged.
    BadInput,
    /// A well-formed input that this version cannot handle.
    Unsupported,
    /// Memory or disk space ran out.
    OutOfSpace,
    /// Something was made, and it is not all that was asked for: a file misses its limits, jobs of a batch failed.
    LimitsMissed,
    /// The user or the system asked the process to stop.
    Interrupted,
}

impl Failure {
    /// The process exit code of this class.
    pub const fn exit_code(self) -> u8 {
        match self {
            Failure::Usage => 2,
            Failure::BadInput => 3,
            Failure::Unsupported => 4,
            Failure::OutOfSpace => 5,
            Failure::LimitsMissed => 6,
            Failure::Interrupted => 130,
        }
    }

    /// The name of this class in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Failure::Usage => "usage",
            Failure::BadInput => "bad_input",
            Failure::Unsupported => "unsupported",
            Failure::OutOfSpace => "out_of_space",
            Failure::LimitsMissed => "limits_missed",
            Failure::Interrupted => "interrupted",
        }
    }

    /// The class of an input/output error: no space left is its own class, everything else is a bad input (or output).
    pub fn of_io(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::OutOfMemory => Failure::OutOfSpace,
            io::ErrorKind::Interrupted => Failure::Interrupted,
            _ => Failure::BadInput,
        }
    }
}
