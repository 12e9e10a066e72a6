//! What a model is called in reports.

use std::path::{Path, PathBuf};

use qsf_runtime::source::name_of_snapshot;

/// The name of a model in reports: the last component of its path; of a snapshot in the hub's cache that of the model.
pub fn model_name(path: &Path) -> String {
    let full: PathBuf = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some(name) = name_of_snapshot(&full) {
        return name.to_owned();
    }
    // The hub's cache has files as links to others that are named by their hash.
    let named = if full.is_file() { path } else { &full };
    named.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
