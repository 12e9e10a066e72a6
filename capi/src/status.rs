//! What every function gives back, and the border that no panic crosses.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use qsf_cli::exit::class_of;
use qsf_runtime::RuntimeError;

/// How a call ended. The numbers are the exit codes of the programs, where these have them.
#[repr(C)]
#[allow(clippy::upper_case_acronyms, non_camel_case_types, reason = "names of C")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum qsf_status {
    /// Done.
    QSF_OK = 0,
    /// The request itself is wrong: options, values, a NULL.
    QSF_USAGE = 2,
    /// A file is missing, malformed or damaged.
    QSF_BAD_INPUT = 3,
    /// A well-formed file that this version cannot handle.
    QSF_UNSUPPORTED = 4,
    /// Memory, a RAM budget or disk space ran out.
    QSF_OUT_OF_SPACE = 5,
    /// The result is there, and is not all that was asked for.
    QSF_LIMITS_MISSED = 6,
    /// The buffer is too small. Its size is where the length goes.
    QSF_BUFFER_TOO_SMALL = 7,
    /// Another thread is using the session.
    QSF_BUSY = 8,
    /// An error of this library. Please report it.
    QSF_INTERNAL = 70,
    /// A callback or a cancellation ended the work.
    QSF_INTERRUPTED = 130,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn qsf_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"unknown",
        };
    VERSION.as_ptr()
}

/// What the last call that failed in this thread said, in English: file, place, what was expected and found. Valid until the next
/// call of this library in this thread. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_last_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

/// A status that is no failure of the crates.
#[derive(Debug)]
pub struct Ended(pub qsf_status, pub String);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for Ended {}

/// Runs `work`; its error, or its panic, becomes a status and the text of [`qsf_last_error`].
pub fn guard(work: impl FnOnce() -> anyhow::Result<()>) -> qsf_status {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => qsf_status::QSF_OK,
        Ok(Err(error)) => {
            remember(&format!("{error:#}"));
            status_of(&error)
        }
        Err(panic) => {
            remember(&format!("internal error: {}", message_of(panic.as_ref())));
            qsf_status::QSF_INTERNAL
        }
    }
}

fn remember(text: &str) {
    let text: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    LAST.set(CString::new(text).unwrap_or_default());
}

fn status_of(error: &anyhow::Error) -> qsf_status {
    if let Some(Ended(status, _)) = error.downcast_ref() {
        return *status;
    }
    if let Some(RuntimeError::Interrupted) = error.downcast_ref() {
        return qsf_status::QSF_INTERRUPTED;
    }
    match class_of(error).map(|class| class.exit_code()) {
        Some(3) => qsf_status::QSF_BAD_INPUT,
        Some(4) => qsf_status::QSF_UNSUPPORTED,
        Some(5) => qsf_status::QSF_OUT_OF_SPACE,
        Some(6) => qsf_status::QSF_LIMITS_MISSED,
        Some(130) => qsf_status::QSF_INTERRUPTED,
        _ => qsf_status::QSF_USAGE,
    }
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}
