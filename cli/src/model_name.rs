//! What a model is called in reports.

use std::path::{Path, PathBuf};

/// The name of a model in reports: the last component of its path.
pub fn model_name(path: &Path) -> String {
    let full: PathBuf = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    full.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
