//! The exit code of a program, by the class of the error that ended it.

use std::process::ExitCode;

use qsf_converter::ConvertError;
use qsf_format::printable::printable;
use qsf_format::{Failure, FormatError};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::CpuError;
use qsf_runtime::cpu::threads::PoolError;

use crate::batch::BatchError;

/// A file that is whole as far as it says, which is not far.
#[derive(Debug)]
pub struct Unprotected(pub String);

impl std::fmt::Display for Unprotected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unprotected {}

/// Ends a program: prints the error, if any, with its causes, and gives the exit code of its class.
pub fn exit_with(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    eprintln!("error: {}", printable(&format!("{error:#}")));
    ExitCode::from(class_of(&error).unwrap_or(Failure::Usage).exit_code())
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
    if error.is::<Unprotected>() {
        return Some(Failure::BadInput);
    }
    (error.is::<CpuError>() || error.is::<PoolError>()).then_some(Failure::Usage)
}
