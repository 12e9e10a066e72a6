//! A directory that gets its name only when it is whole: filled as `NAME.partial`, synced, then renamed.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::FormatError;
use crate::partial_file::{finish_partial, note_partial, same_file};
use crate::printable::printable;
use crate::side_file::{Links, open_side_file};

/// The empty file in it that whoever fills it holds locked. It is made before all others and removed behind them, so it also
/// tells what a crash has left from a folder of somebody else.
const LOCK: &str = ".lock";

/// Ends of the names of files that model directories have: what `force` may replace.
const KNOWN: [&str; 7] = ["json", "safetensors", "txt", "jinja", "model", "md", "lock"];

/// Without these, no folder is that of a model.
const CONFIG: &str = "config.json";
const WEIGHTS: &str = ".safetensors";

/// The two names of a directory in the making. Dropped before [`PartialDir::publish`], it removes what was written.
pub struct PartialDir {
    path: PathBuf,
    partial: PathBuf,
    force: bool,
    lock: Option<File>,
    published: bool,
}

impl PartialDir {
    /// Starts `path`: an empty directory to write files to.
    ///
    /// # Errors
    /// When `path` is there and is not empty and `force` is off, or holds what no model directory has, its parent is missing, or
    /// another process fills the same directory.
    pub fn create(path: &Path, force: bool) -> Result<PartialDir, FormatError> {
        check_replaceable(path, force)?;
        PartialDir::claim(path, force)
    }

    /// Starts a directory, whatever is there under its final name.
    pub(crate) fn claim(path: &Path, force: bool) -> Result<PartialDir, FormatError> {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        if let Some(parent) = parent.filter(|p| !p.is_dir()) {
            let source = io::Error::new(io::ErrorKind::NotFound, "there is no such folder");
            return Err(FormatError::io(parent, "write to", source));
        }
        let partial = with_end(path, ".partial");
        if partial.symlink_metadata().is_ok_and(|m| !m.is_dir()) {
            let source = io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is not a folder");
            return Err(FormatError::io(&partial, "create", source));
        }
        fs::create_dir_all(&partial).map_err(|e| FormatError::io(&partial, "create", e))?;
        check_ours(&partial)?;
        let lock = lock_in(&partial)?;
        note_partial(&partial);
        let dir = PartialDir { path: path.to_owned(), partial, force, lock: Some(lock), published: false };
        // What a crashed process left.
        for name in entries(&dir.partial)?.iter().filter(|name| *name != LOCK) {
            let left = dir.partial.join(name);
            fs::remove_file(&left).map_err(|e| FormatError::io(&left, "remove", e))?;
        }
        Ok(dir)
    }

    /// The name while writing.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Gives the directory another final name, in the same folder.
    pub fn rename(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Bytes of all files in it.
    ///
    /// # Errors
    /// When the system refuses to look.
    pub fn bytes(&self) -> Result<u64, FormatError> {
        let mut bytes = 0u64;
        for name in entries(&self.partial)? {
            let path = self.partial.join(name);
            bytes += fs::metadata(&path).map_err(|e| FormatError::io(&path, "read", e))?.len();
        }
        Ok(bytes)
    }

    /// Syncs all files, gives the directory its name and syncs the folder that it is in.
    ///
    /// # Errors
    /// When the system refuses, or `path` has come into being and must not be replaced.
    pub fn publish(mut self) -> Result<(), FormatError> {
        for name in entries(&self.partial)?.iter().filter(|name| *name != LOCK) {
            sync(&self.partial.join(name))?;
        }
        check_replaceable(&self.path, self.force)?;
        // As late as can be: what a crash leaves behind this is not known as ours.
        let locked = self.unlock()?;
        if cfg!(unix) {
            sync(&self.partial)?;
        }
        let old = match self.path.symlink_metadata() {
            Ok(_) => Some(with_end(&self.path, ".replaced")),
            Err(_) => None,
        };
        let rename =
            |from: &Path, to: &Path| fs::rename(from, to).map_err(|e| FormatError::io(to, "rename to", e));
        if let Some(old) = &old {
            rename(&self.path, old)?;
        }
        rename(&self.partial, &self.path)?;
        drop(locked);
        finish_partial(&self.partial);
        self.published = true;
        if let Some(old) = old {
            fs::remove_dir_all(&old).map_err(|e| FormatError::io(&old, "remove", e))?;
        }
        let parent = self.path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if cfg!(unix) { sync(parent) } else { Ok(()) }
    }

    /// Removes the mark; nobody else fills the folder while what is returned is held. Windows renames no folder with an open
    /// file in it.
    fn unlock(&mut self) -> Result<Option<File>, FormatError> {
        let locked = self.lock.take().filter(|_| cfg!(unix));
        let lock = self.partial.join(LOCK);
        fs::remove_file(&lock).map_err(|e| FormatError::io(&lock, "remove", e))?;
        Ok(locked)
    }
}

impl Drop for PartialDir {
    fn drop(&mut self) {
        if !self.published {
            finish_partial(&self.partial);
            // Nothing more can be done if this fails; the name says that the directory is partial.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// # Errors
/// When there are files in the folder that no process of ours has put there: they would be removed.
fn check_ours(partial: &Path) -> Result<(), FormatError> {
    let names = entries(partial)?;
    let is_mark = |lock: fs::Metadata| !lock.is_file() || lock.len() == 0;
    // A lock that is no file is refused by name when it is opened.
    let marked = partial.join(LOCK).symlink_metadata().is_ok_and(is_mark);
    let path = partial.to_owned();
    if names.is_empty() || marked { Ok(()) } else { Err(FormatError::ForeignFolder { path }) }
}

/// Takes the lock of the folder, for this process alone.
fn lock_in(partial: &Path) -> Result<File, FormatError> {
    let path = partial.join(LOCK);
    let lock = open_side_file(&path, Links::Refused)?;
    let busy = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
    // Between opening and locking, another process may have removed this very file, and given the folder its name.
    if busy || !same_file(&path, &lock).map_err(|e| FormatError::io(&path, "check", e))? {
        let source = io::Error::new(io::ErrorKind::ResourceBusy, "another process is writing it");
        return Err(FormatError::io(partial, "lock", source));
    }
    Ok(lock)
}

pub(crate) fn sync(path: &Path) -> Result<(), FormatError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| FormatError::io(path, "sync", e))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.components().as_path().as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

fn entries(dir: &Path) -> Result<Vec<std::ffi::OsString>, FormatError> {
    let read = || fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
    read().map_err(|e| FormatError::io(dir, "read", e))
}

/// Whether a directory may get the name `path`: asked before the work and again behind it. An empty one may be replaced; one that
/// holds a model, and nothing else, with `force`.
fn check_replaceable(path: &Path, force: bool) -> Result<(), FormatError> {
    let Ok(existing) = path.symlink_metadata() else { return Ok(()) };
    if !existing.is_dir() {
        return Err(FormatError::Exists { path: path.to_owned() });
    }
    let names = entries(path)?;
    if names.is_empty() {
        return Ok(());
    }
    if !force {
        return Err(FormatError::Exists { path: path.to_owned() });
    }
    let known = |name: &std::ffi::OsString| {
        let file = path.join(name);
        let end = Path::new(name).extension().and_then(|end| end.to_str());
        !file.is_dir() && end.is_some_and(|end| KNOWN.contains(&end))
    };
    if let Some(other) = names.iter().find(|name| !known(name)) {
        let other = printable(&other.to_string_lossy());
        return Err(FormatError::NotOnlyAModel { path: path.to_owned(), other });
    }
    // Folders of notes have such files as well.
    let is_weights = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(WEIGHTS);
    let missing = match names.iter().any(|name| name == CONFIG) {
        false => CONFIG,
        true if names.iter().any(is_weights) => return Ok(()),
        true => "*.safetensors",
    };
    Err(FormatError::NotAModel { path: path.to_owned(), missing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_empty_folders_and_with_force_those_of_models_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let fill = |path: &Path, force| {
            let made = PartialDir::create(path, force)?;
            fs::write(made.partial().join("config.json"), "{}").unwrap();
            fs::write(made.partial().join("model.safetensors"), "").unwrap();
            made.publish()
        };
        fs::create_dir(&out).unwrap();
        fill(&out, false).unwrap();
        assert!(matches!(fill(&out, false), Err(FormatError::Exists { .. })));
        fill(&out, true).unwrap();
        fs::write(out.join("thesis.docx"), "years of work").unwrap();
        let refused = fill(&out, true).unwrap_err().to_string();
        assert!(refused.contains("thesis.docx"), "{refused}");
        assert!(out.join("thesis.docx").exists());
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["out"], "nothing is left");
    }

    #[test]
    fn a_folder_of_notes_is_no_model_though_its_files_end_like_those_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let docs = dir.path().join("docs");
        fs::create_dir(&docs).unwrap();
        for name in ["README.md", "notes.txt", "package.json"] {
            fs::write(docs.join(name), "mine").unwrap();
        }
        let missing = || match PartialDir::create(&docs, true).err() {
            Some(FormatError::NotAModel { missing, .. }) => missing,
            _ => panic!("the notes would be gone"),
        };
        assert_eq!(missing(), "config.json");
        fs::write(docs.join("config.json"), "{}").unwrap();
        assert_eq!(missing(), "*.safetensors");
        fs::write(docs.join("model.safetensors"), "").unwrap();
        assert!(PartialDir::create(&docs, true).is_ok());
    }

    #[test]
    fn what_is_not_published_is_removed_and_what_a_crash_left_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        fs::create_dir(dir.path().join("out.partial")).unwrap();
        fs::write(dir.path().join("out.partial/old.safetensors"), "left").unwrap();
        fs::write(dir.path().join("out.partial/.lock"), "").unwrap();
        let made = PartialDir::create(&out, false).unwrap();
        assert_eq!(made.bytes().unwrap(), 0);
        assert!(PartialDir::create(&out, false).is_err(), "locked");
        drop(made);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_of_that_name_that_somebody_else_has_filled_keeps_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let (out, partial) = (dir.path().join("out"), dir.path().join("out.partial"));
        fs::create_dir(&partial).unwrap();
        // An empty one has nothing to lose: a crash may have been between folder and lock.
        drop(PartialDir::create(&out, false).unwrap());
        fs::create_dir(&partial).unwrap();
        fs::write(partial.join("thesis.docx"), "years of work").unwrap();
        for lock in [None, Some("of another program")] {
            if let Some(text) = lock {
                fs::write(partial.join(LOCK), text).unwrap();
            }
            for force in [false, true] {
                let error = PartialDir::create(&out, force).err().expect("the folder is not ours");
                assert!(matches!(error, FormatError::ForeignFolder { .. }), "{error}");
                assert!(error.to_string().contains("out.partial"), "{error}");
                assert_eq!(error.failure().exit_code(), 2);
            }
        }
        assert_eq!(fs::read_to_string(partial.join("thesis.docx")).unwrap(), "years of work");
    }

    #[cfg(unix)]
    #[test]
    fn what_a_link_in_the_place_of_the_lock_leads_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let partial = dir.path().join("out.partial");
        fs::create_dir(&partial).unwrap();
        fs::write(dir.path().join("thesis.docx"), "years of work").unwrap();
        std::os::unix::fs::symlink("../thesis.docx", partial.join(LOCK)).unwrap();
        let error = PartialDir::create(&dir.path().join("out"), true).err().expect("a link is no lock");
        assert!(error.to_string().contains(".lock: this is a link"), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join("thesis.docx")).unwrap(), "years of work");
    }
}
