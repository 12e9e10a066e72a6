//! Tests of reading GGUF files, with a writer of small ones, right and wrong.

mod configurations;
mod container;
mod damaged;
mod models;
mod real_models;
mod splits;
mod tensors;
mod typed_values;
mod writer;

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::{GgufFile, GgufSource, open_gguf};
use crate::error::Result;

pub(crate) use writer::{Value, Writer};

/// Opens these bytes as a file.
fn open(bytes: &[u8]) -> Result<GgufFile> {
    let (_dir, path) = save(bytes);
    GgufFile::open(&path)
}

/// Opens what is written as a model.
fn open_model(writer: &Writer) -> Result<GgufSource> {
    let (_dir, path) = save(&writer.bytes());
    open_gguf(&path)
}

/// The message with which a model is refused, which leaves nothing for a terminal to obey.
fn why_not(writer: &Writer) -> String {
    let (_dir, path) = save(&writer.bytes());
    let message = at_once(|| open_gguf(&path).map(|_| ()).unwrap_err().to_string());
    assert!(!message.contains(|c: char| c.is_control()), "{message:?}");
    message
}

fn save(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

/// Asserts that these bytes are refused, at once, and that the message says so.
fn refused(bytes: &[u8], part_of_message: &str) {
    let (_dir, path) = save(bytes);
    let message = at_once(|| GgufFile::open(&path).map(|_| ()).unwrap_err().to_string());
    assert!(message.contains(part_of_message), "{part_of_message:?} in {message:?}");
    assert!(message.len() < 1000 && !message.contains(|c: char| c.is_control()), "{message:?}");
}

/// What `refuse` says, in less than a second.
fn at_once(refuse: impl FnOnce() -> String) -> String {
    let start = std::time::Instant::now();
    let message = refuse();
    assert!(start.elapsed().as_secs_f32() < 1.0, "{message}: {:?}", start.elapsed());
    message
}
