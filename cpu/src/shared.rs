//! A slice that several threads fill, each its own parts.

use std::marker::PhantomData;
use std::ops::Range;

/// A slice that is borrowed mutably and handed out in parts.
pub(super) struct Shared<'a, T = f32> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: the slice is only reached through `part`, whose callers promise parts of their own.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub fn new(slice: &'a mut [T]) -> Shared<'a, T> {
        Shared { start: slice.as_mut_ptr(), len: slice.len(), borrow: PhantomData }
    }

    /// A part.
    ///
    /// # Panics
    /// When the slice does not have it.
    ///
    /// # Safety
    /// No one else may use any of it while the result lives.
    #[expect(clippy::mut_from_ref, reason = "the part is the caller's own, by contract")]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a part beyond the slice");
        // SAFETY: inside the borrowed slice, and the caller's own.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}
