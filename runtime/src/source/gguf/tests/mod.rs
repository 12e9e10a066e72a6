//! Tests of reading GGUF files, with a writer of small ones, right and wrong.

mod container;
mod damaged;
mod splits;
mod typed_values;
mod writer;

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::GgufFile;
use crate::error::Result;

pub(crate) use writer::{Value, Writer};

/// Opens these bytes as a file.
fn open(bytes: &[u8]) -> Result<GgufFile> {
    let (_dir, path) = save(bytes);
    GgufFile::open(&path)
}

fn save(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

/// Asserts that these bytes are refused, at once, and that the message says so.
fn refused(bytes: &[u8], part_of_message: &str) {
    let start = std::time::Instant::now();
    let message = open(bytes).map(|_| ()).unwrap_err().to_string();
    assert!(start.elapsed().as_secs_f32() < 1.0, "{message}: {:?}", start.elapsed());
    assert!(message.contains(part_of_message), "{part_of_message:?} in {message:?}");
    assert!(message.len() < 1000 && !message.contains(|c: char| c.is_control()), "{message:?}");
}
