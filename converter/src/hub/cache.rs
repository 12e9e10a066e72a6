//! The folder that all tools of the hub share (huggingface.co/docs/hub/local-cache): contents in `blobs`, named by their hash;
//! `snapshots/COMMIT` with the files of a commit as links to them; in `refs` the commit that a branch or tag was at.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use qsf_format::{Links, open_side_file};

use super::error::{HubError, Result};
use super::reference::is_commit;
use super::select::check_name;
use super::settings::Settings;
use super::watch::Watch;

const POLL: Duration = Duration::from_millis(100);
/// Folders below a snapshot that are looked into: files of models lie one or two deep.
const MAX_DEPTH: usize = 4;

/// The part of the cache that belongs to one repository.
pub(super) struct RepoCache {
    repo: String,
    dir: PathBuf,
    locks: PathBuf,
    links: bool,
}

impl RepoCache {
    /// The place of `repo`; nothing is made yet.
    pub fn new(settings: &Settings, repo: &str) -> RepoCache {
        let folder = format!("models--{}", repo.replace('/', "--"));
        RepoCache {
            repo: repo.to_owned(),
            dir: settings.cache.join(&folder),
            locks: settings.cache.join(".locks").join(folder),
            links: settings.links,
        }
    }

    /// The repository's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder with the files of a commit.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.dir.join("snapshots").join(commit)
    }

    /// Where a file of a commit is, or would be.
    ///
    /// # Errors
    /// When the name could lead out of the snapshot.
    pub fn file(&self, commit: &str, name: &str) -> Result<PathBuf> {
        check_name(&self.repo, name)?;
        Ok(self.snapshot(commit).join(name))
    }

    /// Where the content with this hash is, or would be. `etag` is one that [`is_blob_name`] accepts.
    pub fn blob(&self, etag: &str) -> PathBuf {
        self.dir.join("blobs").join(etag)
    }

    /// The commit of a revision, as far as the cache knows: a commit is its own.
    pub fn commit(&self, revision: &str) -> Result<Option<String>> {
        if is_commit(revision) {
            return Ok(Some(revision.to_owned()));
        }
        let path = self.dir.join("refs").join(revision);
        let mut text = String::new();
        // A pipe would block.
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(HubError::io(&path, "read", io::Error::other("it is no regular file")));
        }
        match File::open(&path).and_then(|file| file.take(100).read_to_string(&mut text)) {
            Ok(_) => Ok(Some(text.trim().to_owned()).filter(|commit| is_commit(commit))),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(HubError::io(&path, "read", e)),
        }
    }

    /// Notes that `revision` is at `commit`, by a rename, so that nobody reads half of it.
    pub fn set_commit(&self, revision: &str, commit: &str) -> Result<()> {
        if is_commit(revision) || self.commit(revision)?.as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.dir.join("refs").join(revision);
        make_parent(&path)?;
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}.tmp", std::process::id()));
        let new = PathBuf::from(new);
        fs::write(&new, commit).map_err(|e| HubError::io(&new, "write", e))?;
        fs::rename(&new, &path).map_err(|e| HubError::io(&path, "rename to", e))
    }

    /// Makes the file of a commit lead to a content that is there: a relative link, so that the cache can be moved; a hard link
    /// or a copy where there are no links.
    pub fn link(&self, etag: &str, commit: &str, name: &str) -> Result<()> {
        let path = self.file(commit, name)?;
        make_parent(&path)?;
        // Up from the file's folder to the snapshot, and from there to the repository's folder.
        let target = "../".repeat(name.matches('/').count() + 2) + "blobs/" + etag;
        if self.links {
            if fs::read_link(&path).is_ok_and(|found| found == Path::new(&target)) {
                return Ok(());
            }
            // By a rename: another process may have linked it just now, and be about to open the model.
            let new = self.locks.join(format!("{}.{}.link", name.replace('/', "-"), std::process::id()));
            make_parent(&new)?;
            // What a process of this number has left; otherwise nothing is there.
            let _ = fs::remove_file(&new);
            if symlink(Path::new(&target), &new).is_ok() {
                return fs::rename(&new, &path).map_err(|e| HubError::io(&path, "rename to", e));
            }
        }
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(HubError::io(&path, "replace", e)),
            _ => {}
        }
        let blob = self.blob(etag);
        if fs::hard_link(&blob, &path).is_ok() {
            return Ok(());
        }
        match fs::copy(&blob, &path) {
            Ok(_) => Ok(()),
            // Another process has made the link in the meantime.
            Err(_) if path.is_file() && self.links => Ok(()),
            Err(e) => {
                // Half a copy would look like the file.
                let _ = fs::remove_file(&path);
                Err(HubError::io(&path, "write", e))
            }
        }
    }

    /// Waits until this process alone may download the content; held until the file is dropped. It is the lock that the hub's
    /// own tools take.
    pub fn lock(&self, etag: &str, watch: &Watch<'_>) -> Result<File> {
        let path = self.locks.join(format!("{etag}.lock"));
        make_parent(&path)?;
        let file = open_side_file(&path, Links::Refused)?;
        let mut told = false;
        loop {
            match file.try_lock() {
                // File systems without locks: go on without.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
                Err(TryLockError::WouldBlock) => {}
            }
            if !told {
                (watch.notice)(&format!(
                    "{}: waiting for another process that downloads the same file",
                    self.repo
                ));
                told = true;
            }
            if watch.cancel.is_requested() {
                return Err(HubError::Interrupted);
            }
            thread::sleep(POLL);
        }
    }

    /// Names of the files of a commit that are here, in order.
    pub fn names(&self, commit: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        collect(&self.snapshot(commit), "", 0, &mut names)?;
        names.sort_unstable();
        Ok(names)
    }
}

fn collect(dir: &Path, prefix: &str, depth: usize, names: &mut Vec<String>) -> Result<()> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(HubError::io(dir, "read", e)),
    };
    for entry in entries {
        let entry = entry.map_err(|e| HubError::io(dir, "read", e))?;
        let Some(name) = entry.file_name().to_str().map(|name| format!("{prefix}{name}")) else { continue };
        // A link to a folder is not followed: snapshots have none, and one could go in a circle.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth < MAX_DEPTH {
                collect(&entry.path(), &format!("{name}/"), depth + 1, names)?;
            }
        } else if entry.path().is_file() {
            names.push(name);
        }
    }
    Ok(())
}

/// Makes the folder of `path`.
pub(super) fn make_parent(path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    fs::create_dir_all(parent).map_err(|e| HubError::io(parent, "create", e))
}

/// Whether an entity tag can be the name of a file: hashes can, and most of what other servers use.
pub(super) fn is_blob_name(etag: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    (1..=128).contains(&etag.len()) && !etag.starts_with('.') && etag.bytes().all(plain)
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_target: &Path, _link: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_tag_becomes_a_file_name_only_where_it_is_harmless() {
        for good in ["0a1b", "d41d8cd98f00b204e9800998ecf8427e-3", "v1.2_x"] {
            assert!(is_blob_name(good), "{good}");
        }
        for bad in ["", ".", "..", "../x", "a/b", "a\\b", "a b", "a:b", "\u{1b}", ".hidden", &"a".repeat(129)]
        {
            assert!(!is_blob_name(bad), "{bad:?}");
        }
    }
}
