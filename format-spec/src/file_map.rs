//! A file that is mapped read-only: its pages can be given back, or become pages of 2 MiB.
//!
//! Weights that stream by at every token cost a translation of addresses for each page, and a file has pages of 4 KiB. Where the
//! system can have larger ones in its own cache ([`FileMap::collapse`]), nothing is copied. Elsewhere the bytes are copied into
//! memory of the process that has such pages, which then takes the place of the map ([`FileMap::copy`]).

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use memmap2::Mmap;

use crate::deferred_checks::DeferredChecks;
use crate::error::FormatError;
#[cfg(target_os = "linux")]
use crate::huge_pages as system;
#[cfg(unix)]
use crate::page_size::ANY_PAGE;
use crate::page_size::HUGE_PAGE;

/// A file that is mapped read-only. Its bytes, and where they are, never change.
#[derive(Debug)]
pub struct FileMap {
    map: Mmap,
    /// Bytes that are memory of the process in place of pages of the file. While there are none, pages can be given back.
    copied: Mutex<u64>,
    /// Checks of parts that were not made when the file was opened.
    deferred: OnceLock<DeferredChecks>,
}

/// What `copied` is in all maps together.
static COPIED: AtomicU64 = AtomicU64::new(0);

impl FileMap {
    /// Maps a file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new(file: &File) -> io::Result<FileMap> {
        // SAFETY: the map is only ever read, as plain bytes, for which every bit pattern is valid. That another process truncates or
        // rewrites the file meanwhile cannot be excluded; docs/security.md says so, and the project's writers only ever rename
        // finished files into place.
        let map = unsafe { Mmap::map(file) }?;
        Ok(FileMap { map, copied: Mutex::new(0), deferred: OnceLock::new() })
    }

    /// Leaves checks to who uses the bytes.
    pub(crate) fn defer(&self, checks: DeferredChecks) {
        // A map belongs to one open file, whose checks are deferred once.
        let _ = self.deferred.set(checks);
    }

    /// Bytes that are about to be used: hashes what was not yet, where checks were deferred.
    pub fn used(&self, range: Range<usize>) -> &[u8] {
        if let Some(checks) = self.deferred.get() {
            checks.check(&self.map, range.clone());
        }
        &self.map[range]
    }

    /// Whether checks were deferred: then [`FileMap::settle`] says whether the file is sound, also once all were made.
    pub fn has_deferred_checks(&self) -> bool {
        self.deferred.get().is_some()
    }

    /// Whether no check is left ([`FileMap::settle`]).
    pub fn is_settled(&self) -> bool {
        self.deferred.get().is_none_or(DeferredChecks::is_settled)
    }

    /// Makes checks that were deferred, from the end of the file on, as long as `goes_on` says so: for threads that have nothing else to
    /// do until the bytes are used.
    pub fn check_while(&self, goes_on: &dyn Fn() -> bool) {
        if let Some(checks) = self.deferred.get() {
            checks.check_while(&self.map, goes_on);
        }
    }

    /// Makes all checks that were deferred and not made since, before anything that was computed with the bytes is given out. `for_each`
    /// calls what it is given with each number below the first argument, on all threads.
    ///
    /// # Errors
    /// When any part is damaged.
    pub fn settle(&self, for_each: impl FnOnce(usize, &(dyn Fn(usize) + Sync))) -> Result<(), FormatError> {
        self.deferred.get().map_or(Ok(()), |checks| checks.settle(&self.map, for_each))
    }

    /// Asks for larger pages where system and file system have such for files: less translation while all weights stream by at every
    /// token. Only advice: who cannot do it, or will not, maps small pages as ever.
    pub(crate) fn advise_huge(&self) {
        #[cfg(target_os = "linux")]
        let _ = self.map.advise(memmap2::Advice::HugePage);
    }

    /// Tells the system that these bytes are not needed soon, so that reading a large file from front to back takes no memory to
    /// speak of. They stay readable. Nothing happens once any of the file was [copied](FileMap::copy).
    #[cfg(unix)]
    pub fn release(&self, range: Range<usize>) {
        // Inwards to whole pages: the call rounds outwards, and would drop parts of the neighbours.
        let start = range.start.min(self.len()).next_multiple_of(ANY_PAGE);
        let end = range.end.min(self.len()) / ANY_PAGE * ANY_PAGE;
        // Held until it is done: nothing is copied meanwhile.
        let copied = self.copied();
        if start < end && *copied == 0 {
            // SAFETY: all of the map is a read-only view of the file, so that a page that is dropped comes back from there with the
            // same bytes. Memory in its place would come back as zeros, but there is none, and will be none while the lock is held.
            // Only advice: a system that refuses it keeps the pages, which is correct too.
            let _ = unsafe {
                self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
            };
        }
    }

    /// Other systems decide for themselves.
    #[cfg(not(unix))]
    pub fn release(&self, _range: Range<usize>) {}

    /// The part of `range` that can be in large pages: they begin at certain addresses. It is empty where there is none.
    pub fn huge_pages_in(&self, range: Range<usize>) -> Range<usize> {
        let first = self.map.as_ptr() as usize;
        let start = (first + range.start.min(self.len())).next_multiple_of(HUGE_PAGE);
        let end = (first + range.end.min(self.len())) / HUGE_PAGE * HUGE_PAGE;
        if start < end { start - first..end - first } else { 0..0 }
    }

    /// Has the system keep the large pages of `range` as such in its cache of the file. Takes no memory beside that.
    ///
    /// # Errors
    /// When it cannot, as most cannot with files, or there is no such page.
    #[cfg(target_os = "linux")]
    pub fn collapse(&self, range: Range<usize>) -> io::Result<u64> {
        let bytes = &self.map[self.huge_pages_in(range)];
        system::collapse(bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Copies the large pages of `range` into memory that has such pages, and puts it in their place. Returns how many bytes are in
    /// large pages now. The memory is given back with the map.
    ///
    /// # Errors
    /// When there is no such memory, or no such page. Then all is as before.
    #[cfg(target_os = "linux")]
    pub fn copy(&self, range: Range<usize>) -> io::Result<u64> {
        let bytes = &self.map[self.huge_pages_in(range)];
        let copy = system::HugeCopy::new(bytes)?;
        let (len, huge) = (bytes.len() as u64, copy.huge_bytes());
        *self.copied() += len;
        COPIED.fetch_add(len, Ordering::Relaxed);
        // SAFETY: these are whole pages of a read-only map that belongs to `self` alone and is borrowed. What would bring pages of the
        // file back, or zeros, is `release`, which does nothing from here on.
        let placed = unsafe { copy.put_over(bytes) };
        if placed.is_err() {
            *self.copied() -= len;
            COPIED.fetch_sub(len, Ordering::Relaxed);
        }
        placed.map(|()| huge)
    }

    /// Other systems decide for themselves.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_os = "linux"))]
    pub fn collapse(&self, _range: Range<usize>) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Other systems decide for themselves.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_os = "linux"))]
    pub fn copy(&self, _range: Range<usize>) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn copied(&self) -> MutexGuard<'_, u64> {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        COPIED.fetch_sub(*self.copied(), Ordering::Relaxed);
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

/// Bytes of mapped files that are memory of this process now ([`FileMap::copy`]).
pub fn copied_file_bytes() -> u64 {
    COPIED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
