//! Texts of the repository, and the folder with trained models, golden logits and texts, which is no part of a clone.

use std::path::{Path, PathBuf};

/// A text for evaluation that the embedded model was not trained on.
pub const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/data/demo.txt");

/// A text for calibration, which shares nothing with the other.
pub const CALIBRATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../converter/data/calibration.txt");

/// The path of `name` in the folder that the environment variable `QSF_SHARED` names, else in `shared` beside the
/// repository.
///
/// A test that asks begins with `#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]`: without the
/// folder it is reported as ignored (see build.rs). With a folder that lacks the part, it fails here.
#[track_caller]
pub fn shared(name: &str) -> PathBuf {
    let root = std::env::var_os("QSF_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let path = root.join(name);
    assert!(path.exists(), "{} is not there: QSF_SHARED names the folder with test data", path.display());
    path
}

/// The path of a tiny model with random weights and the logits that transformers computes for it.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden").join(name)
}
