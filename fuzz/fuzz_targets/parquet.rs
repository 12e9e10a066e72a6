//! A Parquet file: as it is, then with its footer at its end.
#![no_main]

use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::{fresh_dir, must_say_something};
use qsf_runtime::parquet::{MAGIC, ParquetRows};

/// Of the fixtures that the corpus is.
const COLUMNS: [&str; 14] = [
    "text", "kind", "label", "small", "unsigned", "flag", "score", "half", "words", "choices", "pairs", "maybe",
    "question", "endings",
];
/// Rows without columns cost nothing, and there may be 2^63 of them.
const MAX_ROWS: usize = 10_000;

fuzz_target!(|bytes: &[u8]| {
    let dir = fresh_dir();
    let path = dir.path().join("rows.parquet");
    read(&path, bytes);
    // The first two bytes say how many of the others are the footer.
    if let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = u32::from(u16::from_le_bytes(*length)).min(rest.len() as u32);
        read(&path, &[&MAGIC[..], rest, &length.to_le_bytes(), MAGIC].concat());
    }
});

fn read(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("a file in the temporary directory");
    let mut rows = match ParquetRows::open(path, &COLUMNS) {
        Ok(rows) => rows,
        Err(error) => return must_say_something(&error),
    };
    for _ in 0..MAX_ROWS {
        match rows.next_row() {
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => return must_say_something(&error),
        }
    }
}
