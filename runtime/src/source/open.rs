//! Which kind of source a path is.

use std::path::Path;

use super::gguf::{is_gguf, open_gguf};
use super::huggingface::open_huggingface;
use super::qsf::QsfSource;
use super::weight_source::WeightSource;
use crate::error::{Result, RuntimeError};

/// Ends of names of weight files that say nothing of the model they belong to.
const WEIGHT_FILES: [&str; 4] = ["safetensors", "bin", "pt", "pth"];

/// Whether nothing says that the file at `path` is anything else than a QSF file.
pub fn is_qsf(path: &Path) -> bool {
    !path.is_dir() && !is_gguf(path) && !is_weight_file(path)
}

/// Weights without the configuration beside them.
fn is_weight_file(path: &Path) -> bool {
    path.extension().is_some_and(|end| WEIGHT_FILES.iter().any(|known| end == *known))
}

/// Opens the model at `path`: a directory is a HuggingFace model, a file that begins as GGUF files do one of those,
/// anything else a QSF file.
///
/// # Errors
/// When it is neither, or damaged, or unsupported.
pub fn open(path: &Path) -> Result<Box<dyn WeightSource>> {
    if path.is_dir() {
        Ok(Box::new(open_huggingface(path)?))
    } else if is_gguf(path) {
        Ok(Box::new(open_gguf(path)?))
    } else if is_weight_file(path) {
        let found = "a file of weights alone; pass the directory that it is in";
        Err(RuntimeError::bad_input(path, "the path", "a model directory, a GGUF or a QSF file", found))
    } else {
        Ok(Box::new(QsfSource::open(path)?))
    }
}
