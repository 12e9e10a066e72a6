//! What several fuzz targets share: tiny models, directories in memory, checksums made right again.

pub mod models;
// Of the tests of the main workspace.
#[path = "../../tests/src/forged.rs"]
pub mod forged;
#[path = "../../tests/src/mutate/mod.rs"]
pub mod mutate;
#[path = "../../tests/src/reseal.rs"]
pub mod reseal;
pub mod seal_parts;
pub mod torch;

use std::fs;
use std::path::Path;

use qsf_runtime::Result;
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::{HuggingFaceSource, WeightSource, open_huggingface};
use tempfile::TempDir;

use crate::mutate::Dice;

/// What a custom mutator does: half of the time libFuzzer's own mutations, else those of `mutate`, which knows the fields of
/// the file. Gives the size of the result.
pub fn mutated(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    mutate: impl Fn(&mut Vec<u8>, &mut Dice),
) -> usize {
    let mut dice = Dice::new(seed);
    if dice.below(2) == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let mut file = data[..size].to_vec();
    mutate(&mut file, &mut dice);
    // A file that has grown too long is left as it was.
    if let Some(place) = data.get_mut(..file.len()).filter(|place| place.len() <= max_size) {
        place.copy_from_slice(&file);
        return file.len();
    }
    size
}

/// An empty directory, in memory where the system has such a place; it is removed when dropped.
pub fn fresh_dir() -> TempDir {
    let shm = Path::new("/dev/shm");
    let made = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    made.expect("a temporary directory")
}

/// A model directory of these files.
pub fn dir_of(files: &[(&str, &[u8])]) -> TempDir {
    let dir = fresh_dir();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).expect("a file in the temporary directory");
    }
    dir
}

/// Opens a directory of these files and reads every tensor of it.
pub fn open_and_load(files: &[(&str, &[u8])]) -> Result<HuggingFaceSource> {
    let dir = dir_of(files);
    let source = open_huggingface(dir.path()).inspect_err(must_say_something)?;
    load_all(&source);
    source.release(None);
    source.release(Some(0));
    Ok(source)
}

/// Reads every value of every tensor. A source that was opened may still refuse single tensors.
pub fn load_all(source: &dyn WeightSource) {
    for info in source.tensors() {
        match source.load(info.id) {
            Ok(tensor) => {
                assert_eq!(
                    (tensor.rows(), tensor.cols(), tensor.stored_type()),
                    (info.rows, info.cols, info.stored)
                );
                let mut row = vec![0.0; tensor.cols()];
                for i in 0..tensor.rows() {
                    tensor.decode_row(Isa::best(), i, &mut row);
                }
            }
            Err(error) => must_say_something(&error),
        }
    }
}

/// Making the message of an error must work, too, and nothing in it may control a terminal.
pub fn must_say_something(error: &impl std::fmt::Display) {
    let message = error.to_string();
    assert!(!message.is_empty() && !message.contains('\u{1b}'), "{message:?}");
}
