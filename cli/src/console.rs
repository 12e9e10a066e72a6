//! What a user sees: tables, text on stdout, and notes on stderr.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use qsf_format::printable::printable;
pub use qsf_inspection::table::table;
use serde_json::Value;

/// Whether notes and progress are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From here on there are no notes and no progress.
pub fn quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether notes and progress are left out.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Says something on stderr that is no error. Nobody may be there to read it.
pub fn note(text: &str) {
    if !is_quiet() {
        let _ = writeln!(std::io::stderr(), "note: {}", printable(text));
    }
}

/// Prints to stdout; a closed pipe ends the program quietly, as `qsf-inspect FILE | head` expects.
///
/// # Errors
/// When writing fails for another reason.
pub fn print(text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result,
    }
}

/// Prints what `--json` asks for.
///
/// # Errors
/// When writing fails for another reason than a closed pipe.
pub fn print_json(document: &Value) -> std::io::Result<()> {
    print(&format!("{document:#}\n"))
}
