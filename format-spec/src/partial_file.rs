//! A file that gets its name only when it is whole: written as `NAME.partial`, synced, then renamed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::FormatError;
use crate::side_file::{Links, open_side_file, read_side_file};

/// What files begin with that a crash leaves unfinished: nothing yet, where the beginning is written last, as that of models; the mark of
/// our formats; an item of a task. Whatever else is not empty belongs to somebody.
const BEGINNINGS: [&[u8]; 5] = [&[0; 16], b"QSF1", b"QSF-", b"QSFSTATS", br#"{"item":"#];
const MOST_OF_BEGINNING: u64 = 16;

/// The partial files of this process, for [`abandon_partial_files`].
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the partial files of this process, which is to end at once: from here on it begins and finishes no more of them, and
/// whoever tries waits for that end. A file that has its name keeps it.
pub fn abandon_partial_files() {
    let mut unfinished = unfinished();
    for partial in unfinished.drain(..) {
        // Nothing more can be done if this fails; the name says that it is partial.
        let _ = if partial.is_dir() { fs::remove_dir_all(partial) } else { fs::remove_file(partial) };
    }
    // Never unlocked: a file that is begun now would be left behind, and one that is renamed now is gone.
    std::mem::forget(unfinished);
}

/// From here on [`abandon_partial_files`] removes `partial`.
pub(crate) fn note_partial(partial: &Path) {
    unfinished().push(partial.to_owned());
}

/// From here on it does not.
pub(crate) fn finish_partial(partial: &Path) {
    unfinished().retain(|other| other != partial);
}

/// Does `rename`, by which what is at `partial` gets its name: it is abandoned before that or not at all.
pub(crate) fn finish_by(
    partial: &Path,
    rename: impl FnOnce() -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let mut unfinished = unfinished();
    rename()?;
    unfinished.retain(|other| other != partial);
    Ok(())
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two names of a file in the making. Dropped before [`PartialFile::publish`], it removes what was written.
pub struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    force: bool,
    published: bool,
}

impl PartialFile {
    /// Starts `path` and gives the empty, locked file to write to. What a crash has left of an earlier one is replaced.
    ///
    /// # Errors
    /// When `path` exists and `force` is off, it is a directory or a device, its directory is missing, another process writes the
    /// same file, or something else has the name of the partial file.
    pub fn create(path: &Path, force: bool) -> Result<(PartialFile, File), FormatError> {
        if path.is_dir() {
            return Err(FormatError::IsDirectory { path: path.to_owned() });
        }
        check_replaceable(path, force)?;
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        if let Some(parent) = parent.filter(|p| !p.is_dir()) {
            let source = io::Error::new(io::ErrorKind::NotFound, "there is no such folder");
            return Err(FormatError::io(parent, "write to", source));
        }
        let partial = PartialFile::name_of_partial(path);
        let mut unfinished = unfinished();
        let file = claim(&partial)?;
        unfinished.push(partial.clone());
        drop(unfinished);
        Ok((PartialFile { path: path.to_owned(), partial, force, published: false }, file))
    }

    /// Whether `path` can be started as far as its partial file goes. To be asked before work whose result is written in the end.
    ///
    /// # Errors
    /// When something else has the name of that file.
    pub fn check_name(path: &Path) -> Result<(), FormatError> {
        let partial = PartialFile::name_of_partial(path);
        // What is no file is in the way of a file, but may be a folder in the making.
        if !partial.symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Ok(());
        }
        check_left(&partial, &read_side_file(&partial, Links::Refused)?)
    }

    /// Whether the file `path` has the name, or is a link to it, under which `out` would be written: reading the one while writing the
    /// other would destroy it.
    pub fn is_partial_of(path: &Path, out: &Path) -> bool {
        File::open(path)
            .is_ok_and(|file| same_file(&PartialFile::name_of_partial(out), &file).unwrap_or(false))
    }

    /// The name of `path` while it is written.
    pub fn name_of_partial(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        name.into()
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name while writing.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Gives the file another final name, in the same folder.
    pub fn rename(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Syncs `file`, renames it and syncs the directory, so that after a power cut the final name leads to the whole file
    /// or to none.
    ///
    /// # Errors
    /// When the system refuses, or `path` has come into being and `force` is off or it is no file.
    pub fn publish(&mut self, file: &File) -> Result<(), FormatError> {
        file.sync_all().map_err(|e| FormatError::io(&self.partial, "sync", e))?;
        check_replaceable(&self.path, self.force)?;
        {
            let mut unfinished = unfinished();
            fs::rename(&self.partial, &self.path).map_err(|e| FormatError::io(&self.path, "rename to", e))?;
            unfinished.retain(|partial| *partial != self.partial);
        }
        self.published = true;
        if cfg!(unix) {
            let parent = self.path.parent().filter(|p| !p.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            File::open(parent)
                .and_then(|dir| dir.sync_all())
                .map_err(|e| FormatError::io(parent, "sync", e))?;
        }
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.published {
            let mut unfinished = unfinished();
            unfinished.retain(|partial| *partial != self.partial);
            // Nothing more can be done if this fails; the name says that the file is partial.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Whether a file may get the name `path`. Asked before the work and again behind it: hours may lie between.
pub(crate) fn check_replaceable(path: &Path, force: bool) -> Result<(), FormatError> {
    let Ok(existing) = path.symlink_metadata() else { return Ok(()) };
    // `--force` replaces files, but root would lose /dev/null to it. A link is replaced, and not what it leads to.
    if !existing.is_file() && !existing.is_symlink() {
        return Err(FormatError::NotRegularFile { path: path.to_owned() });
    }
    if force { Ok(()) } else { Err(FormatError::Exists { path: path.to_owned() }) }
}

/// Creates `partial` for this process alone, or takes over what a crashed one left.
fn claim(partial: &Path) -> Result<File, FormatError> {
    let refuse = |why: &str| {
        let source = io::Error::new(io::ErrorKind::ResourceBusy, why);
        Err(FormatError::io(partial, "lock", source))
    };
    // Not truncated before it is locked: it may be another process's work.
    let file = open_side_file(partial, Links::Refused)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            return refuse("another process is writing it");
        }
        // File systems without locks: go on without.
        Err(TryLockError::Error(_)) | Ok(()) => {}
    }
    // Between opening and locking, another process may have finished and renamed this very file.
    if !same_file(partial, &file).map_err(|e| FormatError::io(partial, "check", e))? {
        return refuse("another process has just finished it; try again");
    }
    check_left(partial, &file)?;
    file.set_len(0).map_err(|e| FormatError::io(partial, "truncate", e))?;
    Ok(file)
}

/// # Errors
/// When a file is neither empty nor begins as those do that a crash leaves.
fn check_left(partial: &Path, mut file: &File) -> Result<(), FormatError> {
    let mut found = Vec::new();
    let read = file.take(MOST_OF_BEGINNING).read_to_end(&mut found).and_then(|_| file.rewind());
    read.map_err(|e| FormatError::io(partial, "read", e))?;
    if found.is_empty() || BEGINNINGS.iter().any(|beginning| found.starts_with(beginning)) {
        return Ok(());
    }
    Err(FormatError::ForeignFile { path: partial.to_owned() })
}

#[cfg(unix)]
pub(crate) fn same_file(path: &Path, file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let open = file.metadata()?;
    Ok(path.symlink_metadata().is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())))
}

#[cfg(not(unix))]
pub(crate) fn same_file(path: &Path, _file: &File) -> io::Result<bool> {
    Ok(path.symlink_metadata().is_ok())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_a_crash_left_is_replaced_and_what_somebody_else_has_there_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial) = (dir.path().join("out"), dir.path().join("out.partial"));
        for left in
            [&b""[..], &[0; 16], &[0; 900], b"QSF1", b"QSF1 and more", b"QSF-BASE-LOGPROBS", br#"{"item":0}"#]
        {
            fs::write(&partial, left).unwrap();
            PartialFile::check_name(&path).unwrap();
            let (_target, file) = PartialFile::create(&path, false).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 0, "{left:?}");
        }
        for foreign in [&b"Q"[..], b"QSF", b"QSF: notes", b"GGUF", &[0; 15], b"\0QSF", br#"{"messages":[]}"#]
        {
            fs::write(&partial, foreign).unwrap();
            let refused = [false, true].map(|force| PartialFile::create(&path, force).err());
            for error in refused.into_iter().chain([PartialFile::check_name(&path).err()]) {
                assert!(matches!(error, Some(FormatError::ForeignFile { .. })), "{foreign:?}: {error:?}");
            }
            assert_eq!(fs::read(&partial).unwrap(), foreign);
        }
        assert!(PartialFile::is_partial_of(&partial, &path) && !PartialFile::is_partial_of(&path, &path));
        let link = dir.path().join("link");
        symlink(&partial, &link).unwrap();
        assert!(PartialFile::is_partial_of(&link, &path), "what it leads to would be lost");
    }

    #[test]
    fn what_is_no_file_is_never_replaced_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for force in [false, true] {
            let refused = PartialFile::create(&socket, force).err().expect("a socket is no file");
            assert!(matches!(refused, FormatError::NotRegularFile { .. }), "{refused}");
        }
        assert!(socket.symlink_metadata().unwrap().file_type().is_socket());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

        // What has come into being during the work.
        let late = dir.path().join("late");
        let (mut target, file) = PartialFile::create(&late, true).unwrap();
        let _listener = UnixListener::bind(&late).unwrap();
        assert!(matches!(target.publish(&file), Err(FormatError::NotRegularFile { .. })));
        drop(target);
        assert!(late.symlink_metadata().unwrap().file_type().is_socket());

        let link = dir.path().join("link");
        symlink(&socket, &link).unwrap();
        let (mut target, file) = PartialFile::create(&link, true).unwrap();
        target.publish(&file).unwrap();
        assert!(link.symlink_metadata().unwrap().is_file());
        assert!(socket.symlink_metadata().unwrap().file_type().is_socket());
    }
}
