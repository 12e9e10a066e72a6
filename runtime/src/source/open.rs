//! Which kind of source a path is.

use std::fs;
use std::path::Path;

use super::gguf::{is_gguf, open_gguf};
use super::hub_cache::snapshot_of;
use super::huggingface::open_huggingface;
use super::qsf::QsfSource;
use super::weight_source::WeightSource;
use crate::content::{no_model, unfinished_name};
use crate::error::{Result, RuntimeError};

/// Ends of names of weight files that say nothing of the model they belong to.
const WEIGHT_FILES: [&str; 4] = ["safetensors", "bin", "pt", "pth"];
/// What can be opened.
const MODEL: &str = "a QSF file, a GGUF file or the directory of a HuggingFace model";

/// Whether nothing says that the file at `path` is anything else than a QSF file.
pub fn is_qsf(path: &Path) -> bool {
    !path.is_dir() && !is_gguf(path) && !is_weight_file(path)
}

/// Weights without the configuration beside them.
fn is_weight_file(path: &Path) -> bool {
    path.extension().is_some_and(|end| WEIGHT_FILES.iter().any(|known| end == *known))
}

/// Opens the model at `path`: a directory is a HuggingFace model, a file that begins as GGUF files do one of those,
/// anything else a QSF file. Of a directory of the hub's cache it is the snapshot.
///
/// # Errors
/// When it is neither, or damaged, or unsupported.
pub fn open(path: &Path) -> Result<Box<dyn WeightSource>> {
    open_by(path, QsfSource::open)
}

/// [`open`] of a model that will answer at once ([`QsfSource::open_for_answer`]).
///
/// # Errors
/// As [`open`].
pub fn open_for_answer(path: &Path) -> Result<Box<dyn WeightSource>> {
    open_by(path, QsfSource::open_for_answer)
}

fn open_by(path: &Path, open_qsf: fn(&Path) -> Result<QsfSource>) -> Result<Box<dyn WeightSource>> {
    if path.is_dir() {
        return Ok(Box::new(open_huggingface(&snapshot_of(path)?)?));
    }
    if is_gguf(path) {
        return Ok(Box::new(open_gguf(path).map_err(|error| unfinished(path, error))?));
    }
    refuse_what_is_no_model(path)?;
    Ok(Box::new(open_qsf(path).map_err(|error| unfinished(path, error))?))
}

/// Of a file that cannot be read, and whose name says that it is not whole, there is no more to say.
fn unfinished(path: &Path, error: RuntimeError) -> RuntimeError {
    match unfinished_name(path) {
        Some(found) => RuntimeError::bad_input(path, "the path", MODEL, found),
        None => error,
    }
}

/// Says what the file at `path` is, where that is something else than a QSF or GGUF file.
///
/// # Errors
/// If so, or when it cannot be read.
pub fn refuse_what_is_no_model(path: &Path) -> Result<()> {
    let wrong = |found: &str| Err(RuntimeError::bad_input(path, "the path", MODEL, found));
    let pipe = "a pipe or a device, and models are mapped; write it to a file first";
    match fs::metadata(path) {
        Err(_) if path == Path::new("-") => return wrong(pipe),
        Err(error) => return Err(RuntimeError::io(path, "open", error)),
        Ok(found) if !found.is_file() && !found.is_dir() => return wrong(pipe),
        Ok(_) => {}
    }
    match no_model(path).map_err(|e| RuntimeError::io(path, "read", e))? {
        Some(what) => wrong(&what),
        None if is_weight_file(path) => wrong("a file of weights alone; pass the directory that it is in"),
        None => Ok(()),
    }
}
