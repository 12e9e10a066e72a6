//! Plumbing that every binary of the project shares: errors to stderr and exit codes, tables, sizes.

use std::process::ExitCode;
use std::str::FromStr;

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

/// A number of bytes on a command line: `24MB`, `1.5 GiB`, `800k`, `4096`. Units of 1000, or of 1024 with an i.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let error = || format!("'{s}' is no size such as 24MB, 1.5GiB or 4096 (bytes)");
        let end = s.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(s.len());
        let (number, unit) = s.split_at(end);
        let unit = unit.trim().to_ascii_lowercase();
        let scale = match unit.strip_suffix('b').unwrap_or(&unit) {
            "" => 1,
            "k" => 1_000,
            "m" => 1_000_000,
            "g" => 1_000_000_000,
            "t" => 1_000_000_000_000,
            "ki" => 1 << 10,
            "mi" => 1 << 20,
            "gi" => 1 << 30,
            "ti" => 1 << 40,
            _ => return Err(error()),
        };
        // A fraction of a byte is dropped. Whole numbers do not go through floats, which lose digits.
        let bytes = match number.parse::<u64>() {
            Ok(number) => number.checked_mul(scale).ok_or_else(error)?,
            Err(_) => {
                let bytes = number.parse::<f64>().map_err(|_| error())? * scale as f64;
                if bytes < u64::MAX as f64 { bytes as u64 } else { return Err(error()) }
            }
        };
        Ok(ByteSize(bytes))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let bytes = |s: &str| s.parse::<ByteSize>().map(|size| size.0).ok();
        assert_eq!(bytes("24.52MB"), Some(24_520_000));
        assert_eq!(bytes("24 mb"), Some(24_000_000));
        assert_eq!(bytes("1.5GiB"), Some(3 << 29));
        assert_eq!(bytes("8G"), Some(8_000_000_000));
        assert_eq!(bytes("18446744073709551615"), Some(u64::MAX));
        for wrong in
            ["", "MB", "-1", "1.2.3MB", "12 parsecs", "1e9", "18446744073709551616", "99999999TiB", "nan"]
        {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
