//! One block as the searches see it: whole lanes of values and of weights.

use std::hint::black_box;

use qsf_format::BlockSize;
use qsf_runtime::cpu::lanes::{self, LANES, Lanes};

/// Lanes of the largest block, 256 values.
pub(super) const MAX_LANES: usize = 256 / LANES;

/// Codes of one block, one per byte; those past the block's size are not looked at.
pub(super) type Codes = [u8; 256];

/// One block. The last block of a row is filled up with copies of its first value at weight 0, which change neither
/// its range nor any weighted sum.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    /// All values of the block, fillers included.
    pub values: &'a [Lanes],
    /// What an error in each value counts: at most 1, and 0 for fillers.
    pub weights: &'a [Lanes],
    /// Values that belong to the row.
    pub used: usize,
}

impl<'a> Block<'a> {
    /// The block that `values` (at most `block` of them) starts; `room` holds it when it must be filled up.
    #[inline(always)]
    pub(super) fn new(
        block: BlockSize,
        values: &'a [f32],
        weights: &'a [Lanes],
        room: &'a mut [Lanes; MAX_LANES],
    ) -> Block<'a> {
        let used = values.len();
        if used == block.get() {
            return Block { values: values.as_chunks().0, weights, used };
        }
        let whole = &mut room[..block.get() / LANES];
        let flat = whole.as_flattened_mut();
        flat.fill(values.first().copied().unwrap_or(0.0));
        flat[..used].copy_from_slice(values);
        Block { values: whole, weights, used }
    }

    /// Values and weights, 16 at a time.
    #[inline(always)]
    pub(super) fn lanes(&self) -> impl Iterator<Item = (&'a Lanes, &'a Lanes)> {
        self.values.iter().zip(self.weights)
    }

    /// Smallest and largest value. Zero is returned as +0, so that the result does not hang on the order of comparison.
    #[inline(always)]
    pub(super) fn range(&self) -> (f32, f32) {
        let mut low = self.values[0];
        let mut high = low;
        for values in self.values {
            for i in 0..LANES {
                low[i] = if values[i] < low[i] { values[i] } else { low[i] };
                high[i] = if values[i] > high[i] { values[i] } else { high[i] };
            }
        }
        let low = low.into_iter().fold(f32::INFINITY, |a, b| if b < a { b } else { a });
        let high = high.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
        (low + 0.0, high + 0.0)
    }

    /// Largest magnitude.
    #[inline(always)]
    pub(super) fn largest(&self) -> f32 {
        let (low, high) = self.range();
        if -low > high { -low } else { high }
    }

    /// Sum over all values of weight * `error(value)`^2: the quantity that every search makes small.
    #[inline(always)]
    pub(super) fn weighted_squares(&self, error: impl Fn(f32) -> f32) -> f32 {
        let mut sum = [0.0; LANES];
        for (x, w) in self.lanes() {
            for i in 0..LANES {
                let e = error(x[i]);
                sum[i] = (w[i] * e).mul_add(e, sum[i]);
            }
        }
        total(sum)
    }

    /// Writes `code(value)` for every value and 0 for fillers.
    #[inline(always)]
    pub(super) fn write_codes(&self, codes: &mut Codes, code: impl Fn(f32) -> u8) {
        for (x, codes) in self.values.iter().zip(codes.as_chunks_mut::<LANES>().0) {
            for i in 0..LANES {
                codes[i] = code(x[i]);
            }
        }
        codes[self.used..self.values.len() * LANES].fill(0);
    }
}

/// Sum of all lanes, in the order of [`lanes::sum`].
///
/// The lanes are passed through memory: seen together with the loop that fills them, the tree of the sum leads the
/// compiler to keep them in pairs, and the loop then runs at a quarter of its speed.
#[inline(always)]
pub(super) fn total(lanes: Lanes) -> f32 {
    lanes::sum(*black_box(&lanes))
}

/// `v` rounded to the nearest integer, ties to even; |v| must be below 2^22. Two additions, so that the compiler
/// vectorizes it the same on every instruction set; the low bits of the sum are the integer in two's complement.
#[inline(always)]
pub(super) fn round(v: f32) -> f32 {
    (v + ROUNDING) - ROUNDING
}

/// The low byte of the integer nearest to `v`, |v| below 2^22.
#[inline(always)]
pub(super) fn round_to_byte(v: f32) -> u8 {
    (v + ROUNDING).to_bits() as u8
}

/// 1.5 * 2^23: from here to 2^24 neighbouring `f32` are 1 apart.
const ROUNDING: f32 = 12_582_912.0;

/// `v` limited to `low..=high`; comparisons that have one meaning on every instruction set.
#[inline(always)]
pub(super) fn clamp(v: f32, low: f32, high: f32) -> f32 {
    let v = if v > low { v } else { low };
    if v < high { v } else { high }
}

/// `1 / scale`, and 0 for a scale of 0, which makes every code the one nearest to zero.
#[inline(always)]
pub(super) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
