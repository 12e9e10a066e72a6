//! Models and texts that are too large for the repository. Tests that need them are skipped where they are absent.

use std::path::{Path, PathBuf};

/// The path of a file or directory of test data, or `None` (and a line that says so) on a machine without it.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("QSF_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no test data at {} (set QSF_SHARED to a directory that has it)", path.display());
    None
}
