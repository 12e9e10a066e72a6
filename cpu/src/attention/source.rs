//! Vectors that products are taken with, as they are stored.

use super::super::lanes::{LANES, Lanes};
use super::super::vector::Vector;
use super::codes::{Coding, GROUP};

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

/// Values as they are stored.
pub(super) enum InPlace<'a> {
    Halves(&'a [[u16; LANES]]),
    Bytes(Bytes<'a>),
}

/// Values in codes of 8 bits. Steps are from position to position.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    pub codes: &'a [[u8; LANES]],
    /// For each position, one for 32 dimensions.
    pub scales: &'a [f32],
    /// Vectors of a position, and scales.
    pub columns: usize,
    pub groups: usize,
}

impl Source for Bytes<'_> {
    #[inline(always)]
    fn from(self, vector: usize) -> Self {
        let (position, column) = (vector / self.columns, vector % self.columns);
        let scales = &self.scales[position * self.groups + column / (GROUP / LANES)..];
        Bytes { codes: &self.codes[vector..], scales, ..self }
    }

    #[inline(always)]
    fn has(self, i: usize, step: usize) -> bool {
        step == self.columns && i * step < self.codes.len() && i * self.groups < self.scales.len()
    }

    #[inline(always)]
    fn others_step(self) -> usize {
        self.groups
    }

    #[inline(always)]
    unsafe fn get<V: Vector>(self, at: usize, other: usize) -> V {
        // SAFETY: the caller's promise.
        let (codes, scale) = unsafe { (self.codes.get_unchecked(at), *self.scales.get_unchecked(other)) };
        let coding = Coding::Eight;
        V::from_codes(codes, 0, coding.top()).sub(V::splat(coding.center())).mul(V::splat(scale))
    }
}
