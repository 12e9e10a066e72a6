//! Keeps panics of libraries that read files of strangers from ending the program: that of tokenizers panics on some malformed
//! ones (for instance a template that names a token it does not have).

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use qsf_format::printable::message;

thread_local! {
    /// Whether this thread is inside of [`catch_library_panic`], where a panic is an answer and not worth a message.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// The result of `work` by `library`; an error or a panic of it as text.
pub(crate) fn catch_library_panic<T>(
    library: &str,
    work: impl FnOnce() -> Result<T, Box<dyn Error + Send + Sync>>,
) -> Result<T, String> {
    // The hook belongs to the whole process. This one passes everything on but the panics of guarded threads, so it can
    // stay: taking it away again would race with other threads.
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Where a panic is the end, its message is all that is left of it.
            if !GUARDED.get() || cfg!(panic = "abort") {
                previous(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    // Unwind safe: after a panic nothing of a tokenizer is left half changed but its cache, which checks its lock, and nothing of a template.
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(message(error)),
        Err(panic) => {
            let message = message(panic_text(panic.as_ref()));
            Err(format!("an internal error of the {library} library: {message}"))
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_becomes_an_error_with_its_message() {
        let found = catch_library_panic::<()>("tokenizer", || panic!("index {} out of range", 7));
        assert_eq!(found.unwrap_err(), "an internal error of the tokenizer library: index 7 out of range");
        assert!(!GUARDED.get(), "later panics of this thread are shown again");
        assert_eq!(catch_library_panic("tokenizer", || Ok(1)), Ok(1));
    }
}
