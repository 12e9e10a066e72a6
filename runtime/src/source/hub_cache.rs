//! A directory of the cache that the hub's own tools keep: `models--org--name` with `snapshots/COMMIT` and `refs/main`
//! (<https://huggingface.co/docs/huggingface_hub/guides/manage-cache>). What people pass is often the directory above the model.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};

use crate::error::{Result, RuntimeError};
use qsf_format::printable::quote;

/// Longest name of a snapshot; that of a commit has 40 characters.
const MAX_COMMIT: u64 = 100;

/// The snapshot that is meant by `path`; `path` itself where it is no such directory.
///
/// # Errors
/// When it is one without a snapshot, or with several and no word on which is meant, or what names one leads elsewhere.
pub fn snapshot_of(path: &Path) -> Result<PathBuf> {
    let snapshots = path.join("snapshots");
    if !snapshots.is_dir() || path.join("config.json").exists() {
        return Ok(path.to_owned());
    }
    let named = commit_of(&path.join("refs/main"))?.map(|commit| snapshots.join(commit));
    if let Some(named) = named.filter(|named| named.is_dir()) {
        return check_inside(path, named);
    }
    let entries = fs::read_dir(&snapshots).map_err(|e| RuntimeError::io(&snapshots, "read", e))?;
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    match &found[..] {
        [only] => check_inside(path, only.clone()),
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

/// The commit that a branch is at, where the cache says.
///
/// # Errors
/// When that is no name of a folder: it may come from a stranger, like the model.
fn commit_of(branch: &Path) -> Result<Option<String>> {
    let wrong =
        |found: String| Err(RuntimeError::bad_input(branch, "the file", "the commit of a snapshot", found));
    match fs::metadata(branch) {
        Ok(found) if found.is_file() => {}
        // A pipe would block, and a device never end.
        Ok(_) => return wrong("no regular file".into()),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(RuntimeError::io(branch, "open", e)),
    }
    let mut text = Vec::new();
    let read = File::open(branch).and_then(|file| file.take(MAX_COMMIT + 1).read_to_end(&mut text));
    read.map_err(|e| RuntimeError::io(branch, "read", e))?;
    let text = String::from_utf8_lossy(&text);
    let commit = text.trim();
    let mut parts = Path::new(commit).components();
    let is_one_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    match is_one_name && text.len() as u64 <= MAX_COMMIT && !commit.contains(['/', '\\']) {
        true => Ok(Some(commit.to_owned())),
        false => wrong(quote(commit)),
    }
}

/// `snapshot`, which may be a link within `repository` only.
fn check_inside(repository: &Path, snapshot: PathBuf) -> Result<PathBuf> {
    let real = |path: &Path| path.canonicalize().map_err(|e| RuntimeError::io(path, "open", e));
    let target = real(&snapshot)?;
    if target.starts_with(real(repository)?) {
        return Ok(snapshot);
    }
    let found = format!("a link to {}; pass that directory itself", target.display());
    Err(RuntimeError::bad_input(&snapshot, "the path", "a folder within that of the repository", found))
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

    #[test]
    fn a_branch_names_a_snapshot_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (model, private) = (dir.path().join("models--a--b"), dir.path().join("private"));
        for folder in [&model.join("snapshots/x"), &model.join("snapshots/y"), &model.join("refs"), &private]
        {
            fs::create_dir_all(folder).unwrap();
        }
        let main = model.join("refs/main");
        let long = "a".repeat(1000);
        for named in
            [private.to_str().unwrap(), "../../private", "..", ".", "", "x/../../../private", "x\\y", &long]
        {
            fs::write(&main, named).unwrap();
            let error = snapshot_of(&model).unwrap_err().to_string();
            assert!(
                error.contains("refs/main") && error.contains("the commit of a snapshot"),
                "{named}: {error}"
            );
        }
        fs::write(&main, "y").unwrap();
        assert_eq!(snapshot_of(&model).unwrap(), model.join("snapshots/y"));
        fs::remove_file(&main).unwrap();
        fs::create_dir(&main).unwrap();
        assert!(snapshot_of(&model).unwrap_err().to_string().contains("no regular file"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_names_or_is_a_snapshot_may_not_lead_elsewhere() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (model, private) = (dir.path().join("models--a--b"), dir.path().join("private"));
        for folder in [&model.join("snapshots"), &model.join("refs"), &private] {
            fs::create_dir_all(folder).unwrap();
        }
        let main = model.join("refs/main");
        symlink("/dev/zero", &main).unwrap();
        assert!(snapshot_of(&model).unwrap_err().to_string().contains("no regular file"));
        fs::remove_file(&main).unwrap();
        symlink(&private, model.join("snapshots/x")).unwrap();
        let error = snapshot_of(&model).unwrap_err().to_string();
        assert!(error.contains("snapshots/x") && error.contains("a link to"), "{error}");
    }
}
