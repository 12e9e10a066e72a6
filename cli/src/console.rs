//! What a user sees: tables, text on stdout, and notes on stderr.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{CellAlignment, Table, presets};
use qsf_format::printable::printable;
use serde_json::Value;

/// A table in plain text: the first `text_columns` columns to the left, all others, being numbers, to the right.
pub fn table(header: &[&str], text_columns: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if i >= text_columns {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

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
