//! Floats that begin at a cache line, so that no vector of them lies across two.

use std::ops::{Deref, DerefMut};

use super::lanes::{LANES, Lanes};
use crate::memory::{OutOfMemory, zeros};

/// Floats of a cache line, 64 bytes.
const LINE: usize = 16;

/// A slice of floats that begins at a multiple of 64 bytes.
#[derive(Debug, Default)]
pub struct AlignedFloats {
    /// Never made longer in place: that could move it to where `start` is wrong.
    floats: Vec<f32>,
    start: usize,
    len: usize,
}

impl AlignedFloats {
    /// `len` zeros for `what`. Pages are touched when they are used, not here.
    ///
    /// # Errors
    /// When so much cannot be had.
    pub fn zeros(len: usize, what: &str) -> Result<AlignedFloats, OutOfMemory> {
        Ok(AlignedFloats::of(zeros(len.saturating_add(LINE), what)?, len))
    }

    /// Makes it `len` floats, of those that it was made for. What they hold is left from the last use.
    ///
    /// # Panics
    /// When it was made for fewer.
    pub fn resize(&mut self, len: usize) {
        assert!(len <= self.floats.len() - self.start, "{len} floats of {}", self.floats.len());
        self.len = len;
    }

    /// What `len` floats take.
    pub const fn bytes(len: usize) -> usize {
        len.saturating_add(LINE).saturating_mul(size_of::<f32>())
    }

    fn of(floats: Vec<f32>, len: usize) -> AlignedFloats {
        // Aligning can fail by its contract, though not here; it would only cost speed.
        let start = floats.as_ptr().align_offset(64).min(floats.len() - len);
        AlignedFloats { floats, start, len }
    }

    /// The first `len` floats: a buffer that grows when it must. What they hold is left from the last use.
    pub fn at_least(&mut self, len: usize) -> &mut [f32] {
        if self.len < len {
            *self = AlignedFloats::of(vec![0.0; len + LINE], len);
        }
        &mut self[..len]
    }

    /// The first `count` vectors: a buffer that grows when it must. What they hold is left from the last use.
    pub(super) fn lanes(&mut self, count: usize) -> &mut [Lanes] {
        self.at_least(count * LANES).as_chunks_mut().0
    }
}

impl Deref for AlignedFloats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.floats[self.start..][..self.len]
    }
}

impl DerefMut for AlignedFloats {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.floats[self.start..][..self.len]
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
