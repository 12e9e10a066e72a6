//! The names that files have for now, and those that they get in the end: a file alone, or several together.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use qsf_format::{FormatError, PartialFile, PartialFiles};

use super::part_file::PartFile;
use super::split::{check_name, files_there, part_path};
use crate::error::Result;

/// Where a model is written.
pub(super) enum Target {
    One(PartialFile, File),
    Several(PartialFiles, PathBuf),
}

impl Target {
    /// Starts `out`, which is one file if `several` is off.
    ///
    /// # Errors
    /// When it is there already and `force` is off, or cannot be written.
    pub fn create(out: &Path, several: bool, force: bool) -> Result<Target> {
        if !several {
            let (partial, file) = PartialFile::create(out, force)?;
            return Ok(Target::One(partial, file));
        }
        check_name(out)?;
        if let Some(path) = files_there(out).into_iter().next().filter(|_| !force) {
            return Err(FormatError::Exists { path }.into());
        }
        Ok(Target::Several(PartialFiles::create(out, force)?, out.to_owned()))
    }

    /// What a message names: the file, or the folder, as it is called for now.
    pub fn path(&self) -> &Path {
        match self {
            Target::One(partial, _) => partial.partial(),
            Target::Several(files, _) => files.folder(),
        }
    }

    /// Starts a file for what a model of one file would have, or the next of several.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(&self, number: usize, first: usize, room: u64) -> Result<PartFile> {
        match self {
            Target::One(partial, file) => PartFile::begin(partial.partial(), Some(file), first, room),
            Target::Several(files, _) => {
                // How many there will be, and so what they are called, is known in the end.
                let path = files.folder().join(format!("{number}.gguf"));
                PartFile::begin(&path, None, first, room)
            }
        }
    }

    /// Gives all files names by which readers find the others.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn name(&self, parts: &mut [PartFile]) -> Result<()> {
        let Target::Several(files, out) = self else { return Ok(()) };
        let count = parts.len();
        for (number, part) in parts.iter_mut().enumerate() {
            let name = part_path(out, number, count).file_name().unwrap_or_default().to_owned();
            let path = files.folder().join(name);
            fs::rename(&part.path, &path).map_err(|e| FormatError::io(&path, "rename to", e))?;
            part.path = path;
        }
        Ok(())
    }

    /// Gives the files their names, by that of a single one; gives these.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn publish_as(self, path: &Path, parts: &[PartFile]) -> Result<Vec<PathBuf>> {
        match self {
            Target::One(mut partial, file) => {
                partial.rename(path.to_owned());
                partial.publish(&file)?;
                Ok(vec![path.to_owned()])
            }
            Target::Several(files, _) => {
                let names: Vec<PathBuf> =
                    (0..parts.len()).map(|number| part_path(path, number, parts.len())).collect();
                // The first is the one that readers open.
                let pairs = parts.iter().map(|part| part.path.clone()).zip(names.iter().cloned()).rev();
                files.publish(&pairs.collect::<Vec<_>>())?;
                Ok(names)
            }
        }
    }
}
