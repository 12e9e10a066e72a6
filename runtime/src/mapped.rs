//! Maps weight files into memory.

use std::fs::{self, File};
use std::path::Path;

use qsf_format::FileMap;

use crate::error::{Result, RuntimeError};

/// The bytes of a regular file, after following links: the cache of the hub's own client keeps snapshots as links into a
/// folder of blobs.
///
/// # Errors
/// When it is no regular file (a pipe or a device would block, or never end), or cannot be opened or mapped.
pub(crate) fn map_file(path: &Path) -> Result<FileMap> {
    let found = fs::metadata(path).map_err(|e| RuntimeError::io(path, "open", e))?;
    if !found.is_file() {
        let kind = if found.is_dir() { "a directory" } else { "a special file" };
        return Err(RuntimeError::bad_input(path, "the path", "a regular file", kind));
    }
    let file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
    FileMap::new(&file).map_err(|e| RuntimeError::io(path, "map", e))
}
