//! Plumbing that every binary of the project shares: errors to stderr and exit codes, tables, sizes.

use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};

use crate::error::FormatError;
use crate::failure::Failure;
pub use crate::printable::printable;

/// Ends a binary: prints the error, if any, with its causes, and gives the exit code of its class. `classify` knows the
/// error types of the binary's own crates; format errors are known here.
pub fn exit_with(
    result: anyhow::Result<()>,
    classify: impl Fn(&anyhow::Error) -> Option<Failure>,
) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let failure = classify(&error)
        .or_else(|| error.downcast_ref::<FormatError>().map(FormatError::failure))
        .or_else(|| error.downcast_ref::<std::io::Error>().map(Failure::of_io))
        .unwrap_or(Failure::Usage);
    eprintln!("error: {}", printable(&format!("{error:#}")));
    ExitCode::from(failure.exit_code())
}

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

/// Bytes as people read them, in units of 1000.
pub fn human_bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}
