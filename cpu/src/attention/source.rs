//! Vectors that products are taken with, as they are stored.

use super::super::lanes::{LANES, Lanes};
use super::super::vector::Vector;

/// Vectors as they are stored, which become floats in registers.
pub(super) trait Source: Copy {
    /// Those from a vector on.
    fn from(self, vector: usize) -> Self;

    /// Whether number `i * step` is there.
    fn has(self, i: usize, step: usize) -> bool;

    /// What the second argument of [`Source::get`] grows by where the first grows by a step.
    fn others_step(self) -> usize;

    /// Number `at`, `i * step`, where `other` is `i * others_step`.
    ///
    /// # Safety
    /// It must be there.
    unsafe fn get<V: Vector>(self, at: usize, other: usize) -> V;
}

impl Source for &[Lanes] {
    #[inline(always)]
    fn from(self, vector: usize) -> Self {
        &self[vector..]
    }

    #[inline(always)]
    fn has(self, i: usize, step: usize) -> bool {
        i * step < self.len()
    }

    #[inline(always)]
    fn others_step(self) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn get<V: Vector>(self, at: usize, _other: usize) -> V {
        // SAFETY: the caller's promise.
        V::from_lanes(unsafe { self.get_unchecked(at) })
    }
}

impl Source for &[[u16; LANES]] {
    #[inline(always)]
    fn from(self, vector: usize) -> Self {
        &self[vector..]
    }

    #[inline(always)]
    fn has(self, i: usize, step: usize) -> bool {
        i * step < self.len()
    }

    #[inline(always)]
    fn others_step(self) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn get<V: Vector>(self, at: usize, _other: usize) -> V {
        // SAFETY: the caller's promise.
        V::from_halves(unsafe { self.get_unchecked(at) })
    }
}
