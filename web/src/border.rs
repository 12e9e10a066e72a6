//! Arguments, answers and errors, and what the browser gives.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::{panic, ptr};

use getrandom::Error as NoRandom;
use qsf_format::printable::printable;
use qsf_format::{Failure, FormatError};
use qsf_runtime::RuntimeError;

/// Most bytes of an argument: far beyond any prompt.
const MOST_GIVEN: usize = 16 << 20;

#[link(wasm_import_module = "qsf")]
unsafe extern "C" {
    /// Fills memory with random bytes.
    fn random(bytes: *mut u8, count: usize);
    /// Takes the message of a panic. The trap that follows ends the instance.
    fn panicked(text: *const u8, bytes: usize);
}

thread_local! {
    static GIVEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Whether something was left half done, so that nothing is to be believed any more.
    static BROKEN: Cell<bool> = const { Cell::new(false) };
}

/// An error as the page shows it.
#[derive(Debug)]
pub struct Problem {
    /// A class, as exit codes have them.
    pub failure: Failure,
    /// What is wrong.
    pub text: String,
}

impl Problem {
    /// What the page asked for cannot be.
    pub fn usage(text: impl Into<String>) -> Problem {
        Problem { failure: Failure::Usage, text: text.into() }
    }
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Problem {
        Problem { failure: error.failure(), text: with_sources(&error) }
    }
}

impl From<FormatError> for Problem {
    fn from(error: FormatError) -> Problem {
        Problem { failure: error.failure(), text: with_sources(&error) }
    }
}

/// An error and what caused it, on a line.
fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text += &format!(": {source}");
        next = source.source();
    }
    text
}

/// Room for an argument of so many bytes; NULL when it is too long.
pub fn room(bytes: usize) -> *mut u8 {
    GIVEN.with_borrow_mut(|given| {
        given.clear();
        if bytes > MOST_GIVEN || given.try_reserve_exact(bytes).is_err() {
            return ptr::null_mut();
        }
        given.resize(bytes, 0);
        given.as_mut_ptr()
    })
}

/// Where the last answer is, and its length.
pub fn last_answer() -> (*const u8, usize) {
    ANSWER.with_borrow(|answer| (answer.as_ptr(), answer.len()))
}

/// Runs `work` with the text that was given. What it says becomes the answer, and its error the answer and a code that is not 0.
pub fn answer(work: impl FnOnce(&str) -> Result<String, Problem>) -> u32 {
    let given = GIVEN.take();
    // A panic ends the instance; the page does not call again, and if it does all the same it learns why.
    if BROKEN.replace(true) {
        ANSWER.set(b"an earlier call has failed by an internal error; reload the page".to_vec());
        return u32::from(Failure::Usage.exit_code());
    }
    let said = match std::str::from_utf8(&given) {
        Ok(given) => work(given),
        Err(error) => Err(Problem::usage(format!("the argument is not UTF-8: {error}"))),
    };
    BROKEN.set(false);
    let (code, text) = match said {
        Ok(text) => (0, text),
        Err(problem) => (u32::from(problem.failure.exit_code()), printable(&problem.text).to_string()),
    };
    ANSWER.set(text.into_bytes());
    code
}

/// Has the page told of panics.
pub fn report_panics() {
    panic::set_hook(Box::new(|info| {
        let text = format!("internal error: {info}");
        // SAFETY: the import reads so many bytes.
        unsafe { panicked(text.as_ptr(), text.len()) }
    }));
}

/// The random numbers of the tokenizer library are those of the browser.
///
/// # Safety
/// There are `bytes` bytes at `to` that may be written.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(to: *mut u8, bytes: usize) -> Result<(), NoRandom> {
    // SAFETY: the caller's promise; the import writes so many bytes.
    unsafe { random(to, bytes) }
    Ok(())
}
