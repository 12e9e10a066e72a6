//! Floats, and other numbers, that begin at a cache line, so that no vector of them lies across two.

use std::ops::{Deref, DerefMut};

use super::lanes::{LANES, Lanes};
use crate::memory::{OutOfMemory, zeros};

/// Bytes of a cache line.
const LINE: usize = 64;

/// A slice that begins at a multiple of 64 bytes, of items of which a line holds a whole number.
#[derive(Debug, Default)]
pub struct Aligned<T> {
    /// Never made longer in place: that could move it to where `start` is wrong.
    items: Vec<T>,
    start: usize,
    len: usize,
}

/// Floats.
pub type AlignedFloats = Aligned<f32>;

impl<T: Copy + Default> Aligned<T> {
    /// Items of a line.
    const OF_LINE: usize = LINE / size_of::<T>();

    /// `len` zeros for `what`. Pages are touched when they are used, not here.
    ///
    /// # Errors
    /// When so much cannot be had.
    pub fn zeros(len: usize, what: &str) -> Result<Aligned<T>, OutOfMemory> {
        Ok(Aligned::of(zeros(len.saturating_add(Self::OF_LINE), what)?, len))
    }

    /// Makes it `len` items, of those that it was made for. What they hold is left from the last use.
    ///
    /// # Panics
    /// When it was made for fewer.
    pub fn resize(&mut self, len: usize) {
        assert!(len <= self.items.len() - self.start, "{len} items of {}", self.items.len());
        self.len = len;
    }

    /// What `len` items take.
    pub const fn bytes(len: usize) -> usize {
        len.saturating_add(Self::OF_LINE).saturating_mul(size_of::<T>())
    }

    fn of(items: Vec<T>, len: usize) -> Aligned<T> {
        // Aligning can fail by its contract, and does where the allocator gives no multiple of an item; it only costs speed.
        let start = items.as_ptr().align_offset(LINE).min(items.len() - len);
        Aligned { items, start, len }
    }

    /// The first `len` items: a buffer that grows when it must. What they hold is left from the last use.
    pub fn at_least(&mut self, len: usize) -> &mut [T] {
        if self.len < len {
            *self = Aligned::of(vec![T::default(); len + Self::OF_LINE], len);
        }
        &mut self[..len]
    }
}

impl AlignedFloats {
    /// The first `count` vectors: a buffer that grows when it must. What they hold is left from the last use.
    pub(super) fn lanes(&mut self, count: usize) -> &mut [Lanes] {
        self.at_least(count * LANES).as_chunks_mut().0
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[self.start..][..self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_at_a_line_also_after_they_grew() {
        let zeros = AlignedFloats::zeros(33, "a test").unwrap();
        assert_eq!((zeros.as_ptr() as usize % 64, &zeros[..]), (0, &[0.0; 33][..]));
        let mut buffer = AlignedFloats::default();
        for count in [1, 3, 2, 700] {
            let lanes = buffer.lanes(count);
            assert_eq!((lanes.len(), lanes.as_ptr() as usize % 64), (count, 0));
        }
    }
}
