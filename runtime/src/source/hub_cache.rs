//! A directory of the cache that the hub's own tools keep: `models--org--name` with `snapshots/COMMIT` and `refs/main`
//! (<https://huggingface.co/docs/huggingface_hub/guides/manage-cache>). What people pass is often the directory above the model.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Result, RuntimeError};

/// The snapshot that is meant by `path`; `path` itself where it is no such directory.
///
/// # Errors
/// When it is one without a snapshot, or with several and no word on which is meant.
pub fn snapshot_of(path: &Path) -> Result<PathBuf> {
    let snapshots = path.join("snapshots");
    if !snapshots.is_dir() || path.join("config.json").exists() {
        return Ok(path.to_owned());
    }
    let named = fs::read_to_string(path.join("refs/main")).ok().map(|commit| snapshots.join(commit.trim()));
    if let Some(named) = named.filter(|named| named.is_dir()) {
        return Ok(named);
    }
    let entries = fs::read_dir(&snapshots).map_err(|e| RuntimeError::io(&snapshots, "read", e))?;
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => {
            let expected = "a snapshot of the model";
            Err(RuntimeError::bad_input(path, "snapshots", expected, "none: the download has not ended"))
        }
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            let found = format!("{}; pass the one that you mean", names.join(", "));
            Err(RuntimeError::bad_input(path, "snapshots", "one snapshot, or refs/main", found))
        }
    }
}

/// The name of the model whose snapshot `path` is: of `models--org--name/snapshots/COMMIT` it is `name`.
pub fn name_of_snapshot(path: &Path) -> Option<&str> {
    let model = match path.parent() {
        Some(parent) if parent.ends_with("snapshots") => parent.parent()?,
        _ => path,
    };
    let name = model.file_name()?.to_str()?.strip_prefix("models--")?;
    name.rsplit("--").next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_of_a_cached_model_is_the_one_that_main_names() {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("models--org--gpt2");
        for commit in ["aaa", "bbb"] {
            fs::create_dir_all(model.join("snapshots").join(commit)).unwrap();
        }
        let error = snapshot_of(&model).unwrap_err().to_string();
        assert!(error.contains("pass the one that you mean") && error.contains("aaa"), "{error}");
        fs::create_dir(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), "bbb\n").unwrap();
        assert_eq!(snapshot_of(&model).unwrap(), model.join("snapshots/bbb"));
        assert_eq!(name_of_snapshot(&model.join("snapshots/bbb")), Some("gpt2"));
        assert_eq!(name_of_snapshot(&model), Some("gpt2"));
        assert_eq!(name_of_snapshot(dir.path()), None);
        // What is no cache is itself.
        assert_eq!(snapshot_of(dir.path()).unwrap(), dir.path());
        fs::remove_dir_all(model.join("snapshots")).unwrap();
        fs::create_dir(model.join("snapshots")).unwrap();
        assert!(snapshot_of(&model).unwrap_err().to_string().contains("the download has not ended"));
    }
}
