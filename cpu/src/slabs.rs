//! Memory for keys and values, which one token reads all of: in pages of 2 MiB where Linux has them. With pages of 4 KiB, looking
//! addresses up cost one thread of a Xeon a third of its speed (docs/measurements/cpu-kernels.md, "Large pages for keys and values").

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::memory::OutOfMemory;

/// Parts begin at a cache line.
const LINE: usize = 64;
/// Bytes of a large page.
const LARGE_PAGE: usize = 2 << 20;
/// The largest slab, unless a part is larger: at its end, less than a part is left over. Before it come smaller ones, so that a short
/// text does not take as much.
const MOST: usize = 16 << 20;
const FIRST: usize = 64 << 10;

/// Numbers of which zero bytes are zeros.
///
/// # Safety
/// Zero bytes must be a value, nothing may be left to do when one is dropped, and a cache line must be aligned for it.
pub(crate) unsafe trait Zeros: Copy {}

// SAFETY: numbers, and arrays of them.
unsafe impl Zeros for u8 {}
// SAFETY: as above.
unsafe impl Zeros for u16 {}
// SAFETY: as above.
unsafe impl Zeros for f32 {}
// SAFETY: as above.
unsafe impl<T: Zeros, const N: usize> Zeros for [T; N] {}

/// Where memory comes from: it is taken from the system in slabs, and given out in parts. A slab goes back to the system when all of
/// its parts have gone.
#[derive(Debug, Default)]
pub struct Slabs {
    current: Option<Arc<Slab>>,
    used: usize,
    given: usize,
    taken: usize,
}

/// Numbers in a part of a slab, which nobody else has.
pub(crate) struct Part<T> {
    /// `None` where there are none.
    slab: Option<Arc<Slab>>,
    start: NonNull<T>,
    len: usize,
}

impl Slabs {
    /// Bytes of all parts that were given out.
    pub const fn given(&self) -> u64 {
        self.given as u64
    }

    /// Bytes that may be touched before they are given out, where so many are given out in all: a large page has its memory at once.
    pub const fn ahead(given: u64) -> u64 {
        if given < LARGE_PAGE as u64 { 0 } else { LARGE_PAGE as u64 }
    }

    /// Bytes of all slabs. What of them is in memory is what was given out, and [`Slabs::ahead`].
    pub const fn taken(&self) -> u64 {
        self.taken as u64
    }

    /// `len` zeros for `what`.
    ///
    /// # Errors
    /// When so much cannot be had.
    pub(crate) fn zeros<T: Zeros>(&mut self, len: usize, what: &str) -> Result<Part<T>, OutOfMemory> {
        const { assert!(align_of::<T>() <= LINE, "a line is aligned for it") }
        let refused = |bytes: usize| OutOfMemory { what: what.to_owned(), bytes: bytes as u64 };
        if len == 0 {
            return Ok(Part { slab: None, start: NonNull::dangling(), len });
        }
        let bytes = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_next_multiple_of(LINE));
        let bytes = bytes.ok_or_else(|| refused(usize::MAX))?;
        let left = self.current.as_ref().map_or(0, |slab| slab.len() - self.used);
        let slab = match &self.current {
            Some(slab) if bytes <= left => slab,
            current => {
                let next = current.as_ref().map_or(FIRST, |slab| (2 * slab.len()).min(MOST));
                let slab = Slab::new(bytes.max(next)).ok_or_else(|| refused(bytes))?;
                self.used = 0;
                self.taken += slab.len();
                self.current.insert(Arc::new(slab))
            }
        };
        // SAFETY: the part is inside of the slab, of which what is behind `used` has not been given out.
        let start = unsafe { slab.start().add(self.used) }.cast();
        self.used += bytes;
        self.given += bytes;
        Ok(Part { slab: Some(Arc::clone(slab)), start, len })
    }
}

impl<T> Part<T> {
    /// Bytes of a slab that `len` numbers take.
    pub(crate) const fn bytes(len: usize) -> usize {
        let lines = len.saturating_mul(size_of::<T>()).div_ceil(LINE);
        lines.saturating_mul(LINE)
    }
}

// SAFETY: a part is its owner's own, as a boxed slice is.
unsafe impl<T: Send> Send for Part<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Part<T> {}

impl<T> Deref for Part<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: so many numbers are there, aligned, as long as the slab is, and zeros at first.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.len).as_ref() }
    }
}

impl<T> DerefMut for Part<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and nobody else has this part of the slab.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.len).as_mut() }
    }
}

impl<T> fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({} of {} bytes)", self.len, self.slab.as_ref().map_or(0, |slab| slab.len()))
    }
}

#[cfg(target_os = "linux")]
use mapped::Slab;
#[cfg(not(target_os = "linux"))]
use owned::Slab;

#[cfg(target_os = "linux")]
mod mapped {
    use std::ptr::{self, NonNull};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::LARGE_PAGE;

    /// Memory from the system.
    #[derive(Debug)]
    pub(super) struct Slab {
        /// What was mapped.
        map: NonNull<u8>,
        mapped: usize,
        /// Bytes of it before the slab, and of the slab.
        before: usize,
        len: usize,
    }

    // SAFETY: memory, which no thread is special to.
    unsafe impl Send for Slab {}
    // SAFETY: as above.
    unsafe impl Sync for Slab {}

    impl Slab {
        /// At least so many zeros, of which pages are taken as they are touched: `None` where there is no room.
        pub fn new(len: usize) -> Option<Slab> {
            // A large page begins at a multiple of its size.
            let large = len >= LARGE_PAGE;
            let len = len.checked_next_multiple_of(if large { LARGE_PAGE } else { 4096 })?;
            let mapped = len.checked_add(if large { LARGE_PAGE } else { 0 })?;
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: new memory, wherever the system likes.
            let map = unsafe { mmap_anonymous(ptr::null_mut(), mapped, access, flags) }.ok()?;
            let map = NonNull::new(map.cast::<u8>())?;
            let before = if large { map.as_ptr().align_offset(LARGE_PAGE).min(LARGE_PAGE) } else { 0 };
            let slab = Slab { map, mapped, before, len };
            if large {
                // SAFETY: memory of the slab. Where the system has no large pages, small ones do.
                _ = unsafe { madvise(slab.start().as_ptr().cast(), len, Advice::LinuxHugepage) };
            }
            Some(slab)
        }

        pub fn len(&self) -> usize {
            self.len
        }

        pub fn start(&self) -> NonNull<u8> {
            // SAFETY: inside of the map.
            unsafe { self.map.add(self.before) }
        }
    }

    impl Drop for Slab {
        fn drop(&mut self) {
            // SAFETY: the map of this slab, whose parts have all gone.
            _ = unsafe { munmap(self.map.as_ptr().cast(), self.mapped) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod owned {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use super::LINE;

    /// Memory from the allocator.
    #[derive(Debug)]
    pub(super) struct Slab {
        start: NonNull<u8>,
        layout: Layout,
    }

    // SAFETY: memory, which no thread is special to.
    unsafe impl Send for Slab {}
    // SAFETY: as above.
    unsafe impl Sync for Slab {}

    impl Slab {
        /// So many zeros, which are more than none: `None` where there is no room.
        pub fn new(len: usize) -> Option<Slab> {
            let layout = Layout::from_size_align(len, LINE).ok()?;
            // SAFETY: the layout has bytes.
            let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
            Some(Slab { start, layout })
        }

        pub fn len(&self) -> usize {
            self.layout.size()
        }

        pub fn start(&self) -> NonNull<u8> {
            self.start
        }
    }

    impl Drop for Slab {
        fn drop(&mut self) {
            // SAFETY: what `new` got, and all parts of it have gone.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_zeros_at_cache_lines_that_nobody_else_has() {
        let mut slabs = Slabs::default();
        let mut parts: Vec<Part<[u16; 16]>> = Vec::new();
        for (i, len) in [1, 3, 1000, 40_000, 5, 200_000, 70_000, 0].into_iter().enumerate() {
            let mut part = slabs.zeros::<[u16; 16]>(len, "a test").unwrap();
            assert_eq!((part.len(), part.as_ptr().addr() % if len == 0 { 1 } else { 64 }), (len, 0));
            assert!(part.iter().flatten().all(|value| *value == 0));
            part.fill([i as u16 + 1; 16]);
            parts.push(part);
        }
        let given: usize = parts.iter().map(|part| (size_of_val(&**part)).next_multiple_of(LINE)).sum();
        assert_eq!(slabs.given(), given as u64);
        assert!((given..4 * given).contains(&(slabs.taken() as usize)), "{} for {given}", slabs.taken());
        drop(slabs);
        for (i, part) in parts.iter().enumerate() {
            assert!(part.iter().flatten().all(|value| usize::from(*value) == i + 1), "part {i}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        for len in [usize::MAX, usize::MAX / 2, isize::MAX as usize] {
            let error = Slabs::default().zeros::<f32>(len, "a test").unwrap_err();
            assert!(error.to_string().contains("a test"), "{error}");
        }
        assert_eq!(Slabs::default().zeros::<u8>(3, "a test").unwrap().len(), 3);
    }
}
