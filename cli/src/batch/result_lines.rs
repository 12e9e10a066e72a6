//! The lines of a file of results: records, and behind them what a crash has left of one. Nothing is written here, so whoever reads
//! a file of somebody else finds out before it is changed.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde_json::Value;

use super::error::BatchError;
use super::record::Record;
use crate::json_document::SCHEMA;

/// Most bytes of a line. A job has at most 1 MiB in the list, and its record little beside.
const MOST_LINE_BYTES: u64 = 4 << 20;

/// How each record begins: members are in the order of the alphabet.
const HEAD: &[u8] = b"{\"attempts\":";

/// What there is beside the records.
pub(super) struct Read {
    /// Where the last whole line ends.
    pub end: u64,
    lines: usize,
    records: usize,
    /// The last line, where it has no end.
    rest: Vec<u8>,
}

/// Gives all records of `file`, which stands at its beginning, to `take`. `path` is for messages.
///
/// # Errors
/// When reading fails, or a whole line is no record.
pub(super) fn read_lines(path: &Path, file: &File, mut take: impl FnMut(Record)) -> Result<Read, BatchError> {
    let mut lines = BufReader::new(file);
    let mut read = Read { end: 0, lines: 0, records: 0, rest: Vec::new() };
    let mut line = Vec::new();
    loop {
        line.clear();
        // A file of somebody else may be one endless line.
        let bytes = lines.by_ref().take(MOST_LINE_BYTES + 1).read_until(b'\n', &mut line);
        let bytes = bytes.map_err(|e| BatchError::io(path, "read", e))? as u64;
        if bytes == 0 {
            return Ok(read);
        }
        let refuse = |why| Err(BatchError::Results { path: path.to_owned(), line: read.lines + 1, why });
        if bytes > MOST_LINE_BYTES {
            return refuse(format!("it has more than {MOST_LINE_BYTES} bytes"));
        }
        if !line.ends_with(b"\n") {
            return Ok(Read { rest: line, ..read });
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            match read_record(&line) {
                Ok(record) => take(record),
                Err(why) => return refuse(why),
            }
            read.records += 1;
        }
        read.lines += 1;
        read.end += bytes;
    }
}

impl Read {
    /// That what has no end is what a crash has left of a record, and may go.
    ///
    /// # Errors
    /// When it may be something else.
    pub fn check_rest(&self, path: &Path) -> Result<(), BatchError> {
        let refuse = |why| Err(BatchError::Results { path: path.to_owned(), line: self.lines + 1, why });
        // Where a machine has stopped, the system may not have written all that the file was to have.
        let written = self.rest.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let rest = &self.rest[..written];
        // Of a file without a whole record, the beginning must say that it is ours.
        let is_ours = rest.starts_with(HEAD) || (self.records > 0 && (rest.is_empty() || rest[0] == b'{'));
        match serde_json::from_slice::<Value>(rest) {
            _ if self.rest.is_empty() => Ok(()),
            // It lacks no more than its end.
            Ok(_) => read_record(rest).map(drop).or_else(refuse),
            Err(error) if error.is_eof() && is_ours => Ok(()),
            Err(error) => refuse(error.to_string()),
        }
    }
}

/// A line of results. One without a schema is of a time before there was one, and has its names.
fn read_record(text: &[u8]) -> Result<Record, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match value.get("schema") {
        Some(schema) if *schema != SCHEMA => Err(format!(
            "expected schema {SCHEMA}, found {schema}: results of another version of this program"
        )),
        _ => serde_json::from_value(value).map_err(|error| error.to_string()),
    }
}
