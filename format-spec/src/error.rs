//! Errors of reading and writing QSF files.

use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Why a QSF file could not be read or written. Every variant names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The operating system refused an operation.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as in "cannot {action}".
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The file contradicts the format or its own checksums.
    #[error("{}: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, what was expected and what was found.
        damage: Box<Damage>,
    },
    /// A sound file of a kind that this version does not read.
    #[error("{}: {what} is not supported by this version; {hint}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The unsupported part.
        what: String,
        /// What the user can do.
        hint: String,
    },
    /// The system has not the memory that a part of the file needs.
    #[error("{}: {place} needs {bytes} bytes of memory, and the system has no more", path.display())]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// The part.
        place: String,
        /// What was asked for.
        bytes: usize,
    },
    /// The output exists and may not be replaced.
    #[error("{}: the file exists; pass --force to replace it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The output is a directory.
    #[error("{}: this is a directory; name a file in it", path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The output is a device, a pipe or a socket, which a file of the same name would replace for all programs.
    #[error("{}: this is not a regular file, and would be replaced by one; name a file", path.display())]
    NotRegularFile {
        /// The device, pipe or socket.
        path: PathBuf,
    },
    /// Where a file is to be that programs keep for themselves, there is something else. It is never followed or replaced.
    #[error(
        "{}: this is {found}, and a file that qsf keeps for itself is to be here: remove it, or choose another output",
        path.display()
    )]
    InTheWay {
        /// The name of the file.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// A file has the name of one in the making, and does not begin as those do that programs of ours leave.
    #[error(
        "{}: qsf writes an output under this name until it is whole, and this is no unfinished file of qsf: move or remove it, or \
         choose another output",
        path.display()
    )]
    ForeignFile {
        /// The name of the file.
        path: PathBuf,
    },
    /// A folder has the name of one in the making, and no program of ours has made it.
    #[error(
        "{}: this folder has files and no empty file .lock, so qsf has not left it: move or remove it, or choose another \
         output (files are written in a folder of this name until all of them are whole)",
        path.display()
    )]
    ForeignFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Only a directory that holds a model is ever replaced.
    #[error(
        "{}: this folder has no {missing}, so it is not that of a model and stays: give another name, or an empty folder",
        path.display()
    )]
    NotAModel {
        /// The directory.
        path: PathBuf,
        /// What a model has.
        missing: &'static str,
    },
    /// A directory that holds more than a model is never replaced, asked for or not.
    #[error("{}: this folder holds {other}, which is no file of a model: give another name, or an empty folder", path.display())]
    NotOnlyAModel {
        /// The directory.
        path: PathBuf,
        /// What is in it.
        other: String,
    },
    /// The writer was given something that the format cannot hold.
    #[error("{}: cannot write {what}: {why}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The part.
        what: String,
        /// The limit that it breaks.
        why: String,
    },
}

/// One contradiction in a file: where it is, what should stand there and what does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The part of the file, such as "layer 3 attn_q".
    pub place: String,
    /// Byte offset in the file where that part (or the first wrong byte) stands. Of compressed parts, where their stored
    /// bytes begin; the place then says which of the decompressed bytes is meant.
    pub offset: u64,
    /// What the format or a checksum demands.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl Damage {
    /// A contradiction at `offset` in `place`.
    pub fn new(
        place: impl Into<String>,
        offset: u64,
        expected: impl ToString,
        found: impl ToString,
    ) -> Damage {
        Damage { place: place.into(), offset, expected: expected.to_string(), found: found.to_string() }
    }

    /// The error that names the file, too.
    pub fn in_file(self, path: &Path) -> FormatError {
        FormatError::Damaged { path: path.to_owned(), damage: Box::new(self) }
    }
}

/// Where raw bytes come from: what a byte of theirs is called in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// They stand in the file, the first of them at this offset.
    InFile(u64),
    /// They were decompressed, and have no offsets of their own in the file: only their compressed form, which is at this one.
    Decompressed(u64),
}

impl Origin {
    /// A contradiction at raw byte `at`.
    pub fn damage(
        self,
        place: impl Into<String>,
        at: usize,
        expected: impl ToString,
        found: impl ToString,
    ) -> Damage {
        match self {
            Origin::InFile(first) => Damage::new(place, first.saturating_add(at as u64), expected, found),
            Origin::Decompressed(stored_at) => {
                let place = format!("{}, byte {at} of the decompressed layer", place.into());
                Damage::new(place, stored_at, expected, found)
            }
        }
    }
}

/// Why a part of a file was not read. The name of the file is added at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is damaged.
    Damaged(Damage),
    /// It needs memory that the system has not.
    NoMemory {
        /// The part.
        place: String,
        /// What was asked for.
        bytes: usize,
    },
}

impl From<Damage> for Unread {
    fn from(damage: Damage) -> Unread {
        Unread::Damaged(damage)
    }
}

impl Unread {
    /// The error that names the file, too.
    pub fn in_file(self, path: &Path) -> FormatError {
        match self {
            Unread::Damaged(damage) => damage.in_file(path),
            Unread::NoMemory { place, bytes } => {
                FormatError::NoMemory { path: path.to_owned(), place, bytes }
            }
        }
    }
}

/// Makes room for exactly `more` values, whose number a file has a say in. A failed allocation ends the process by
/// default; this is an error instead.
pub(crate) fn reserve<T>(values: &mut Vec<T>, more: usize, place: &str) -> Result<(), Unread> {
    values.try_reserve_exact(more).map_err(|_| {
        let bytes = values.len().saturating_add(more).saturating_mul(size_of::<T>());
        Unread::NoMemory { place: place.to_owned(), bytes }
    })
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "damaged at offset {} in {}: expected {}, found {}",
            self.offset, self.place, self.expected, self.found
        )
    }
}

impl FormatError {
    /// An error of the operating system at `path`.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> FormatError {
        FormatError::Io { path: path.to_owned(), action, source }
    }

    /// A sound file that holds `what`, which only a later version knows.
    pub fn needs_newer(path: &Path, what: String) -> FormatError {
        FormatError::Unsupported { path: path.to_owned(), what, hint: "the file needs a newer qsf".into() }
    }

    /// The class, which decides the exit code.
    pub fn failure(&self) -> Failure {
        match self {
            FormatError::Io { source, .. } => Failure::of_io(source),
            FormatError::Damaged { .. } => Failure::BadInput,
            FormatError::NoMemory { .. } => Failure::OutOfSpace,
            FormatError::Unsupported { .. } => Failure::Unsupported,
            FormatError::Exists { .. }
            | FormatError::IsDirectory { .. }
            | FormatError::NotRegularFile { .. }
            | FormatError::InTheWay { .. }
            | FormatError::ForeignFile { .. }
            | FormatError::ForeignFolder { .. }
            | FormatError::NotAModel { .. }
            | FormatError::NotOnlyAModel { .. } => Failure::Usage,
            FormatError::Unwritable { .. } => Failure::Unsupported,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_system_has_not_is_an_error_of_its_own_class() {
        let mut values: Vec<u64> = Vec::new();
        reserve(&mut values, 3, "layer 0").unwrap();
        let error = reserve(&mut values, usize::MAX / 16, "layer 0").unwrap_err().in_file(Path::new("a.qsf"));
        assert_eq!(error.failure(), Failure::OutOfSpace);
        assert!(error.to_string().starts_with("a.qsf: layer 0 needs "), "{error}");
    }
}
