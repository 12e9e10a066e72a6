//! Files of three writers (`scripts/make_parquet.py`), and what hostile ones do.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::ParquetRows;
use super::footer::Footer;
use crate::error::RuntimeError;

const COLUMNS: [&str; 12] = [
    "text", "kind", "label", "small", "unsigned", "flag", "score", "half", "words", "choices", "pairs",
    "maybe",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/parquet").join(name)
}

fn rows(path: &Path, columns: &[&str]) -> Result<Vec<Value>, RuntimeError> {
    let mut rows = ParquetRows::open(path, columns)?;
    let mut all = Vec::new();
    while let Some((number, row)) = rows.next_row()? {
        all.push(row);
        assert_eq!(number, all.len());
    }
    Ok(all)
}

fn expected() -> Vec<Value> {
    let text = fs::read_to_string(fixture("rows.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn rows_of_every_writer_compression_and_page_version_are_those_that_were_written() {
    let expected = expected();
    for name in ["snappy_v1", "plain_v1", "zstd_v2", "lz4_v2", "polars", "duckdb"] {
        let found = rows(&fixture(&format!("{name}.parquet")), &COLUMNS).unwrap();
        assert_eq!(found.len(), expected.len(), "{name}");
        for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{name}: row {row}");
        }
    }
}

#[test]
fn columns_that_nobody_asked_for_are_not_read() {
    let some = rows(&fixture("snappy_v1.parquet"), &["label", "none"]).unwrap();
    assert_eq!(some[4], serde_json::json!({"label": 1}));
    for (column, says) in [("nested", "lists in lists"), ("price", "FIXED_LEN_BYTE_ARRAY")] {
        let error = rows(&fixture("snappy_v1.parquet"), &[column]).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains(column) && error.contains("to_json"), "{error}");
    }
}

#[test]
fn what_is_not_read_is_named() {
    for (name, column, says) in [
        ("gzip", "text", "gzip"),
        ("delta", "text", "DELTA_BYTE_ARRAY"),
        ("long_row", "words", "a row of at most 1048576 bytes"),
    ] {
        let path = fixture(&format!("{name}.parquet"));
        let error = rows(&path, &[column]).unwrap_err();
        assert!(matches!(error, RuntimeError::BadInput { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(says) && text.contains("to_json") && text.contains(name), "{text}");
    }
}

/// Most of them give an error; those that give other rows must give as many at most.
#[test]
fn no_damaged_byte_and_no_missing_end_makes_it_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.parquet");
    let mut refused = 0;
    for (name, step) in [("mmlu", 1), ("truthfulqa_mc", 2), ("polars", 7), ("zstd_v2", 31)] {
        let bytes = fs::read(fixture(&format!("{name}.parquet"))).unwrap();
        let columns: Vec<&str> = COLUMNS.into_iter().chain(["question", "mc1_targets", "answer"]).collect();
        let mut read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            refused += usize::from(rows(&path, &columns).is_err());
        };
        for at in (0..bytes.len()).step_by(step) {
            let mut damaged = bytes.clone();
            damaged[at] ^= [1, 0x80, 0xff][at % 3];
            read(&damaged);
            if at % 16 == 0 {
                read(&bytes[..at]);
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

/// A column stores its pages' checksums in this file.
#[test]
fn a_page_is_held_against_its_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.parquet");
    let mut bytes = fs::read(fixture("snappy_v1.parquet")).unwrap();
    // Behind the magic number is the first page's header, and then its values.
    let at = bytes.windows(6).position(|window| window == b"stormy").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = rows(&path, &["text"]).unwrap_err().to_string();
    assert!(error.contains("checksum") && error.contains("column text, offset"), "{error}");
}

/// Fields of Thrift's compact protocol: ids that go up by one, and types.
fn small_footer(chunk_bytes: u64, rows: u8) -> Vec<u8> {
    let root = [0x48, 1, b'r', 0x15, 2, 0];
    let leaf = [0x15, 12, 0x25, 0, 0x18, 1, b'a', 0];
    let mut size = Vec::new();
    let mut left = chunk_bytes << 1;
    while left >= 0x80 {
        size.push(left as u8 | 0x80);
        left >>= 7;
    }
    size.push(left as u8);
    let meta = [&[0x46, 0, 0x16, 2, 0x26][..], &size, &[0x26, 8, 0]].concat();
    let chunk = [&[0x3c][..], &meta, &[0]].concat();
    let group = [&[0x19, 0x1c][..], &chunk, &[0x26, rows << 1, 0]].concat();
    [&[0x29, 0x2c][..], &root, &leaf, &[0x29, 0x1c], &group, &[0]].concat()
}

#[test]
fn a_footer_that_states_what_the_file_does_not_have_is_refused() {
    let footer = Footer::parse(&small_footer(50, 1), 100, &["a"]).unwrap();
    assert_eq!((footer.groups[0].rows, footer.groups[0].chunks[0].bytes), (1, 50));
    let error = Footer::parse(&small_footer(1 << 40, 1), 100, &["a"]).unwrap_err();
    assert!(error.contains("1099511627776 bytes at offset 4"), "{error}");
    // A list of 2^60 elements.
    let list = [0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f];
    let error = Footer::parse(&list, 100, &["a"]).unwrap_err();
    assert!(error.contains("elements in"), "{error}");
    // Structures within structures, in a field that nobody reads.
    let error = Footer::parse(&[0x1c; 100_000], 100, &["a"]).unwrap_err();
    assert!(error.contains("within each other"), "{error}");
}

#[test]
fn a_page_may_not_state_far_more_than_it_stores() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb.parquet");
    // A page of 2^30 bytes in 8.
    let header = [0x15, 0, 0x15, 0x80, 0x80, 0x80, 0x80, 0x08, 0x15, 16, 0];
    let page = [&header[..], &[0; 8]].concat();
    let footer = small_footer(page.len() as u64, 1);
    let length = (footer.len() as u32).to_le_bytes();
    fs::write(&path, [&b"PAR1"[..], &page, &footer, &length, b"PAR1"].concat()).unwrap();
    let error = rows(&path, &["a"]).unwrap_err().to_string();
    assert!(error.contains("1073741824 bytes") && error.contains("67576"), "{error}");
}
