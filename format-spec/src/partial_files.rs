//! Files that get their names together, when all of them are whole: written into the folder `NAME.partial`, synced, then moved
//! beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::FormatError;
use crate::partial_dir::{PartialDir, sync};
use crate::partial_file::{check_replaceable, finish_by};

/// A folder with files in the making. Dropped before [`PartialFiles::publish`], it removes what was written.
pub struct PartialFiles {
    dir: PartialDir,
    force: bool,
}

impl PartialFiles {
    /// Starts an empty folder `NAME.partial`, beside `name`, which need not be the name of one of the files.
    ///
    /// # Errors
    /// When the folder that it is to be in is missing, or another process fills it.
    pub fn create(name: &Path, force: bool) -> Result<PartialFiles, FormatError> {
        Ok(PartialFiles { dir: PartialDir::claim(name, force)?, force })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.dir.partial()
    }

    /// Gives each of `files`, by its path in the folder, its final path, in their order: the one that leads readers to all others
    /// comes last, so that after a power cut it leads to whole files or is not there.
    ///
    /// # Errors
    /// When the system refuses, or one of the final paths has come into being and must not be replaced: then none is used.
    pub fn publish(self, files: &[(PathBuf, PathBuf)]) -> Result<(), FormatError> {
        for (written, path) in files {
            sync(written)?;
            check_replaceable(path, self.force)?;
        }
        finish_by(self.folder(), || {
            files.iter().try_for_each(|(written, path)| {
                fs::rename(written, path).map_err(|e| FormatError::io(path, "rename to", e))
            })
        })?;
        let parent = files.last().and_then(|(_, path)| path.parent());
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        // What is left of the folder goes with `self`.
        if cfg!(unix) { sync(parent.unwrap_or(Path::new("."))) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_get_their_names_or_none_does() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let fill = |force| {
            let files = PartialFiles::create(&at("m.gguf"), force)?;
            let both = ["b", "a"].map(|name| (files.folder().join(name), at(name)));
            for (written, path) in &both {
                fs::write(written, path.to_string_lossy().as_bytes()).unwrap();
            }
            files.publish(&both)
        };
        let names = || {
            let all =
                fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
            let mut all: Vec<String> = all.collect();
            all.sort();
            all
        };
        fs::write(at("a"), "of somebody").unwrap();
        assert!(matches!(fill(false), Err(FormatError::Exists { .. })));
        assert_eq!(names(), ["a"], "no half of them, and no folder");
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "of somebody");
        fill(true).unwrap();
        assert_eq!(names(), ["a", "b"]);
        assert_eq!(fs::read_to_string(at("a")).unwrap(), at("a").to_string_lossy());
    }
}
