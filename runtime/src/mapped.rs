//! Maps weight files into memory.

use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use crate::error::{Result, RuntimeError};

/// The bytes of a regular file, after following links: the cache of the hub's own client keeps snapshots as links into a
/// folder of blobs.
///
/// # Errors
/// When it is no regular file (a pipe or a device would block, or never end), or cannot be opened or mapped.
pub(crate) fn map_file(path: &Path) -> Result<Mmap> {
    let found = fs::metadata(path).map_err(|e| RuntimeError::io(path, "open", e))?;
    if !found.is_file() {
        let kind = if found.is_dir() { "a directory" } else { "a special file" };
        return Err(RuntimeError::bad_input(path, "the path", "a regular file", kind));
    }
    let file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
    // SAFETY: the map is only ever read, as plain bytes, for which every bit pattern is valid. Another process that
    // changes the file while it is mapped is outside of what any reader of maps can guard against.
    unsafe { Mmap::map(&file) }.map_err(|e| RuntimeError::io(path, "map", e))
}

/// Gives back the whole pages inside `range`.
#[cfg(unix)]
pub(crate) fn release_pages(map: &Mmap, range: Range<usize>) {
    // A multiple of every page size in use (4, 16 and 64 KiB). Rounding inwards keeps the neighbours' pages.
    const STEP: usize = 64 << 10;
    let (start, end) = (range.start.next_multiple_of(STEP), range.end / STEP * STEP);
    if start < end {
        // SAFETY: the map is a private, read-only view of a file and nothing was ever written through it, so a page
        // that is dropped comes back from the file with the same bytes: tensors that borrow it see no change.
        let advised =
            unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
        // Only advice: a system that refuses it keeps the pages, which is correct too.
        let _ = advised;
    }
}

/// Other systems decide for themselves.
#[cfg(not(unix))]
pub(crate) fn release_pages(_map: &Mmap, _range: Range<usize>) {}
