//! The folder with trained models, golden logits and texts, which is no part of a clone.

use std::path::{Path, PathBuf};

/// The path of `name` in the folder that the environment variable `QSF_SHARED` names, else in `shared` beside the
/// repository. Without it, says so and gives `None`: the test that asked has nothing to do.
pub fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("QSF_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is not there (QSF_SHARED names the folder)", path.display());
    None
}
