//! Where links of a model directory may lead. A directory is a stranger's, and what its links lead to is the user's: what is read
//! of it may come to stand in a file that the user hands on.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_format::is_untrusted;

use crate::error::{Result, RuntimeError};

/// Ends of the names of files that may lie anywhere: weights, which people keep on other disks. Bytes of another file are no weights.
const WEIGHTS: [&str; 4] = [".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json"];
/// Configurations, whose fields are looked at and never copied.
const CONFIGURATIONS: [&str; 2] = ["config.json", "adapter_config.json"];

/// That `path`, which is `name` in `dir`, is no link that leads out of the directory, or of the folder that the hub's cache has for
/// its repository. With `--untrusted` this holds for all files, and else for all but weights and configurations.
///
/// # Errors
/// When it does, or the system refuses to look.
pub(super) fn check(dir: &Path, name: &str, path: &Path) -> Result<()> {
    let may_lie_anywhere = CONFIGURATIONS.contains(&name) || WEIGHTS.iter().any(|end| name.ends_with(end));
    if (may_lie_anywhere && !is_untrusted()) || !path.is_symlink() {
        return Ok(());
    }
    let real = |path: &Path| fs::canonicalize(path).map_err(|e| RuntimeError::io(path, "open", e));
    let (dir, target) = (real(dir)?, real(path)?);
    if target.starts_with(root_of(&dir)) || (!is_untrusted() && weights_lie_with(&dir, &target)) {
        return Ok(());
    }
    let expected = "a file, or a link within the model's directory (copy the file there if you trust it)";
    Err(RuntimeError::bad_input(path, "the path", expected, format!("a link to {}", target.display())))
}

/// Whether `target` lies where a link of the directory `dir` leads to weights: then it is a directory of links to the files of another,
/// as people and older clients of the hub make them. What is no file of weights there fails when it is read.
fn weights_lie_with(dir: &Path, target: &Path) -> bool {
    let is_weights = |path: &Path| path.to_str().is_some_and(|path| path.ends_with(".safetensors"));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let links = entries.filter(|path| is_weights(path) && path.is_symlink());
    links.filter_map(|path| fs::canonicalize(path).ok()).any(|path| path.parent() == target.parent())
}

/// The folder that all files of the model in `dir`, a path without links, are in: of `models--a--b/snapshots/COMMIT`, whose files
/// are links to `models--a--b/blobs`, it is the first.
fn root_of(dir: &Path) -> PathBuf {
    let repository = |snapshots: &Path| {
        let repository = snapshots.parent().filter(|_| snapshots.ends_with("snapshots"))?;
        let name = repository.file_name()?.to_str()?;
        name.starts_with("models--").then(|| repository.to_owned())
    };
    dir.ancestors().skip(1).find_map(repository).unwrap_or_else(|| dir.to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::model_dir::files::find;

    #[test]
    fn a_model_directory_reads_no_file_from_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let (secret, dir) = (home.path().join("secret"), home.path().join("model"));
        fs::write(&secret, "KEY").unwrap();
        fs::create_dir(&dir).unwrap();
        let link = |target: &Path, name: &str| symlink(target, dir.join(name)).unwrap();
        link(&secret, "vocab.txt");
        link(Path::new("../secret"), "chat_template.jinja");
        link(Path::new("vocab.txt"), "tokenizer.json");
        for name in ["vocab.txt", "chat_template.jinja", "tokenizer.json"] {
            let error = find(&dir, name).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("a link to") && error.contains("secret"),
                "{error}"
            );
        }
        // What a directory is made of, and weights on another disk.
        fs::write(dir.join("merges-v2.txt"), "").unwrap();
        link(Path::new("merges-v2.txt"), "merges.txt");
        link(&secret, "model-00001-of-00002.safetensors");
        link(&secret, "config.json");
        for name in ["merges.txt", "model-00001-of-00002.safetensors", "config.json"] {
            assert_eq!(find(&dir, name).unwrap(), Some(dir.join(name)));
        }
    }

    #[test]
    fn a_directory_of_links_to_the_files_of_a_model_is_that_model() {
        let home = tempfile::tempdir().unwrap();
        let (store, dir) = (home.path().join("store"), home.path().join("model"));
        fs::create_dir_all(store.join("private")).unwrap();
        fs::create_dir(&dir).unwrap();
        for name in ["tokenizer.json", "model.safetensors", "private/key"] {
            fs::write(store.join(name), "{}").unwrap();
        }
        symlink(store.join("tokenizer.json"), dir.join("tokenizer.json")).unwrap();
        symlink(store.join("private/key"), dir.join("vocab.json")).unwrap();
        assert!(find(&dir, "tokenizer.json").is_err());
        symlink(store.join("model.safetensors"), dir.join("model.safetensors")).unwrap();
        assert_eq!(find(&dir, "tokenizer.json").unwrap(), Some(dir.join("tokenizer.json")));
        assert!(find(&dir, "vocab.json").is_err(), "elsewhere, though below");
    }

    #[test]
    fn links_of_the_hubs_cache_stay_within_a_repository() {
        let cache = tempfile::tempdir().unwrap();
        let (own, other) = (cache.path().join("models--a--b"), cache.path().join("models--c--d"));
        for repository in [&own, &other] {
            fs::create_dir_all(repository.join("blobs")).unwrap();
            fs::write(repository.join("blobs/0a1b"), "{}").unwrap();
        }
        let snapshot = own.join("snapshots/c0ffee");
        fs::create_dir_all(&snapshot).unwrap();
        symlink("../../blobs/0a1b", snapshot.join("tokenizer.json")).unwrap();
        symlink("../../../models--c--d/blobs/0a1b", snapshot.join("vocab.json")).unwrap();
        assert!(find(&snapshot, "tokenizer.json").unwrap().is_some());
        assert!(find(&snapshot, "vocab.json").is_err());
        // Through a link to the snapshot, as people make one.
        let short = cache.path().join("short");
        symlink(&snapshot, &short).unwrap();
        assert!(find(&short, "tokenizer.json").unwrap().is_some() && find(&short, "vocab.json").is_err());
    }
}
