//! Pages of 2 MiB on Linux: in the system's cache of a file, or in memory of the process that is put in place of a map.
//!
//! Putting memory in the place of pages that others read is what programs do with their own code, too (`MoveTextRegionToLargePages` of
//! Chromium, hugify of BOLT). It is sound, because nothing that a reader can see changes: addresses and bytes are the same, and both
//! are read-only. The system exchanges them under the lock of the address space, which a reader that finds no page waits for.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

use crate::page_size::HUGE_PAGE;

/// Since Linux 6.1 (asm-generic/mman-common.h); libc has it for some of its targets only.
const MADV_COLLAPSE: i32 = 25;

/// Has the system keep these bytes of a mapped file in large pages of its cache: Linux built with `READ_ONLY_THP_FOR_FS`.
pub(crate) fn collapse(bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: mapped memory, which is ours to read while it is borrowed; the call changes which pages it is in, and no byte of it.
    let done = unsafe { libc::madvise(bytes.as_ptr().cast_mut().cast(), bytes.len(), MADV_COLLAPSE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A copy of some bytes, in memory of its own that begins at a large page.
pub(crate) struct HugeCopy {
    start: NonNull<u8>,
    len: usize,
    /// Bytes that the system gave large pages for.
    huge: usize,
}

impl HugeCopy {
    /// Copies `bytes`, a multiple of [`HUGE_PAGE`].
    ///
    /// # Errors
    /// When there is not so much memory, or next to none of it in large pages.
    pub fn new(bytes: &[u8]) -> io::Result<HugeCopy> {
        if bytes.is_empty() || !bytes.len().is_multiple_of(HUGE_PAGE) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut copy = HugeCopy::of_zeros(bytes.len())?;
        copy.fill(bytes);
        // A few small pages are no harm: another fault may have been counted, or the system is just out of large ones.
        if copy.huge < copy.len / 8 * 7 { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(copy) }
    }

    /// Bytes that the system gave large pages for.
    pub fn huge_bytes(&self) -> u64 {
        self.huge as u64
    }

    fn of_zeros(len: usize) -> io::Result<HugeCopy> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let all = len + HUGE_PAGE;
        // SAFETY: new memory, wherever the system likes.
        let found = unsafe { libc::mmap(ptr::null_mut(), all, access, kind, -1, 0) };
        if found == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let found = found.cast::<u8>();
        let before = found.align_offset(HUGE_PAGE);
        let start = found.wrapping_add(before);
        // SAFETY: both ends are of the memory from above, which nobody else knows, and are not used.
        unsafe {
            if before > 0 {
                libc::munmap(found.cast(), before);
            }
            if before < HUGE_PAGE {
                libc::munmap(start.wrapping_add(len).cast(), HUGE_PAGE - before);
            }
        }
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        let copy = HugeCopy { start, len, huge: 0 };
        // SAFETY: the same memory. What was read from a file need not be in a dump of the process.
        unsafe {
            libc::madvise(copy.address(), len, libc::MADV_HUGEPAGE);
            libc::madvise(copy.address(), len, libc::MADV_DONTDUMP);
        }
        Ok(copy)
    }

    fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }

    fn fill(&mut self, bytes: &[u8]) {
        for (page, from) in (0..).step_by(HUGE_PAGE).zip(bytes.chunks_exact(HUGE_PAGE)) {
            let before = faults();
            // SAFETY: inside of the memory, which is zeros, and which nobody else knows. Volatile: these writes are there for what
            // they make the system do. The second one finds a page only if the first one got a large one.
            let faults = unsafe {
                let page = self.start.add(page);
                page.write_volatile(0);
                page.add(HUGE_PAGE - 1).write_volatile(0);
                let faults = faults() - before;
                page.copy_from_nonoverlapping(NonNull::from(from).cast(), HUGE_PAGE);
                faults
            };
            if faults == 1 {
                self.huge += HUGE_PAGE;
            }
        }
    }

    /// Moves the copy to where `bytes` are, which it was made of.
    ///
    /// # Errors
    /// When the system refuses. Then `bytes` are where they were.
    ///
    /// # Safety
    /// `bytes` must be whole pages of a map that nobody writes to, that goes away as memory does (`munmap`), and of which nothing
    /// but that is asked afterwards that depends on what it is a map of.
    pub unsafe fn put_over(self, bytes: &[u8]) -> io::Result<()> {
        assert_eq!(self.len, bytes.len(), "a copy of other bytes");
        let target = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: memory of ours, which nobody writes to any more.
        if unsafe { libc::mprotect(self.address(), self.len, libc::PROT_READ) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: what lies at `target` goes, and memory with the same bytes and the same access takes its place before another
        // thread can look: mremap(2) holds the lock of the address space for writing all the time, and a thread that finds no page
        // takes it for reading. So whoever has borrowed the bytes sees no change, and the caller promises that nobody writes there.
        let moved = unsafe { libc::mremap(self.address(), self.len, self.len, how, target) };
        if moved == target {
            // The memory belongs to the map from here on.
            std::mem::forget(self);
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // SAFETY: asks about addresses, and reads none.
        if unsafe { libc::msync(target, self.len, libc::MS_ASYNC) } != 0 {
            // The system had removed the old pages when it found no memory for the table of the new ones: a few kilobytes, which it
            // refuses only to a process that it is about to end. Bytes that are borrowed are gone, so nothing can go on.
            std::process::abort();
        }
        Err(error)
    }
}

impl Drop for HugeCopy {
    fn drop(&mut self) {
        // SAFETY: memory of ours, which nobody else knows.
        unsafe { libc::munmap(self.address(), self.len) };
    }
}

/// Page faults of this thread so far that needed no disk.
fn faults() -> libc::c_long {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a valid place for the answer, which is plain numbers, so that zeros are one too.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_minflt
    }
}
