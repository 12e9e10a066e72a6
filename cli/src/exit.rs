//! The exit code of a program, by the class of the error that ended it, and what it says of that.

use std::io::Write as _;

use qsf_converter::ConvertError;
use qsf_format::{Failure, FormatError};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::CpuError;
use qsf_runtime::cpu::threads::PoolError;

use crate::batch::BatchError;
use crate::error_line::error_line;

/// A file that is whole as far as it says, which is not far.
#[derive(Debug)]
pub struct Unprotected(pub String);

impl std::fmt::Display for Unprotected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unprotected {}

/// Some of the files that a command names have failed, each for its own reason.
#[derive(Debug)]
pub struct SomeFailed {
    /// How many.
    pub failed: usize,
    /// Of how many.
    pub total: usize,
    /// The class of the first.
    pub failure: Failure,
}

impl std::fmt::Display for SomeFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} files failed: the lines above say why", self.failed, self.total)
    }
}

impl std::error::Error for SomeFailed {}

/// Ends a program: says what is wrong, if anything is, and gives the exit code of its class.
pub fn exit_with(result: anyhow::Result<()>) -> u8 {
    let Err(error) = result else { return 0 };
    report_error(&error);
    code_of(&error)
}

/// Says what is wrong, with its causes, on stderr. Nobody may be there to read it.
pub fn report_error(error: &anyhow::Error) {
    let failure = class_of(error).unwrap_or(Failure::Usage);
    let _ = writeln!(std::io::stderr(), "{}", error_line(failure, &format!("{error:#}")));
}

/// The exit code of the class of an error.
pub fn code_of(error: &anyhow::Error) -> u8 {
    class_of(error).unwrap_or(Failure::Usage).exit_code()
}

/// The class of an error of any of the crates; `None` for others, such as those of the parser of options.
pub fn class_of(error: &anyhow::Error) -> Option<Failure> {
    if let Some(error) = error.downcast_ref::<ConvertError>() {
        return Some(error.failure());
    }
    if let Some(error) = error.downcast_ref::<BatchError>() {
        return Some(error.failure());
    }
    if let Some(error) = error.downcast_ref::<RuntimeError>() {
        return Some(error.failure());
    }
    if let Some(error) = error.downcast_ref::<FormatError>() {
        return Some(error.failure());
    }
    if let Some(error) = error.downcast_ref::<std::io::Error>() {
        return Some(Failure::of_io(error));
    }
    if let Some(PoolError::Start(_)) = error.downcast_ref() {
        return Some(Failure::OutOfSpace);
    }
    if let Some(error) = error.downcast_ref::<SomeFailed>() {
        return Some(error.failure);
    }
    if error.is::<Unprotected>() {
        return Some(Failure::BadInput);
    }
    (error.is::<CpuError>() || error.is::<PoolError>()).then_some(Failure::Usage)
}
