//! Weighted sums of values that are stored in codes, in whole numbers.
//!
//! A value is `scale * (code - center)`, with a scale for 64 dimensions of a position, or for 32. The weight that a query gives a position,
//! times that scale, becomes an even whole number of 16 bits, relative to the largest scale that the query sees in a step: weights
//! are at most 1, and one in a chunk is 1. So the sum over the positions of a step is exact, in any order; it becomes a float, which
//! is added to those of the steps before. Two positions at once take half the instructions of floats, and no code is turned into a
//! float. What a query does not see counts as zero, whatever is stored there: so nothing depends on which rows are taken together.

use std::ops::Range;

use super::super::lanes::{LANES, Lanes};
use super::super::power_of_two::ROUNDER;
use super::super::vector::Vector;
use super::codes::Coding;
use super::fetch::Fetch;
use super::key_codes::quad;
use super::sizes::STEP;
use super::stored::{KEY_LANES, QUAD, step_arrays};
use super::tile::MOST_AT_ONCE;

/// The largest weight as a whole number.
///
/// A matrix unit takes it as two bytes, of which the high one is at most 127 and the low one has a sign.
const LARGEST: f32 = 32638.0;
/// Lines that are asked for as weights of a row become whole numbers.
const LINES_FOR_WEIGHTS: usize = 2;
/// Vectors of 16 positions of a step. A quad has one of each, as [`Order::Values`](super::stored::Order::Values) says.
pub(super) const VECTORS: usize = STEP / LANES;
const _: () = assert!(VECTORS == QUAD, "a quad of every vector");
/// Vectors of 16 dimensions that are summed up together: of one group, or of two.
pub(super) const COLUMNS: usize = 4;
/// Most groups of these.
const MOST_GROUPS: usize = 2;

/// Vectors of 16 dimensions that share scales.
#[inline(always)]
const fn group_lanes(coding: Coding) -> usize {
    coding.group() / LANES
}

/// Values in codes, of the positions of a step.
#[derive(Clone, Copy)]
pub(super) struct ValueCodes<'a> {
    pub coding: Coding,
    pub dim: usize,
    /// As [`Order::Values`](super::stored::Order::Values) says.
    pub codes: &'a [[u8; LANES]],
    /// As [`Order::scale`](super::stored::Order::scale) says.
    pub scales: &'a [[u16; LANES]],
}

/// Rows whose weights values are multiplied with.
pub(super) struct WeightRows<'a> {
    /// Those that each row gives the positions of the step, one row behind the other by `stride`.
    pub weights: &'a [Lanes],
    pub stride: usize,
}

/// Weights of some rows times scales, for values in codes. Kept, for it would be filled with zeros at every step.
pub(super) struct WeightRoom([[Weights; MOST_GROUPS]; MOST_AT_ONCE]);

impl Default for WeightRoom {
    fn default() -> WeightRoom {
        WeightRoom([[Weights::ZERO; MOST_GROUPS]; MOST_AT_ONCE])
    }
}

impl ValueCodes<'_> {
    /// The values of the positions of `seen` as floats: as many vectors as values have for each position of the step.
    #[inline(always)]
    pub fn to_floats<V: Vector>(self, seen: Range<usize>, out: &mut [Lanes]) {
        let columns = self.dim.div_ceil(LANES);
        let center = V::splat(self.coding.stored_center());
        for column in 0..columns {
            let codes = self.of_column(column);
            for vector in seen.start / LANES..seen.end.div_ceil(LANES) {
                let scales =
                    V::from_halves(self.scales(self.coding, column / group_lanes(self.coding), vector))
                        .to_lanes();
                let of_vector = vector * LANES..(vector + 1) * LANES;
                for position in seen.start.max(of_vector.start)..seen.end.min(of_vector.end) {
                    // SAFETY: a column has codes of all positions of a step.
                    let pair = unsafe { quad::<V>(self.coding, codes, position % LANES) }[vector / 2];
                    // One times the code that is meant, and nothing times the other.
                    let one = V::splat_pair(1 << (16 * (vector % 2)));
                    let code = V::from_wholes(V::add_pair_products(V::splat_whole(0), pair, one));
                    let scale = V::splat(scales[position % LANES]);
                    out[position * columns + column] = code.sub(center).mul(scale).to_lanes();
                }
            }
        }
    }

    /// Codes of 16 dimensions at all positions.
    #[inline(always)]
    pub(super) fn of_column(&self, column: usize) -> &[[u8; LANES]] {
        let arrays = step_arrays(self.coding);
        &self.codes[column * arrays..][..arrays]
    }

    /// Scales of a group of dimensions at 16 positions. `coding` is that of all, which callers know when they are compiled.
    #[inline(always)]
    fn scales(&self, coding: Coding, group: usize, vector: usize) -> &[u16; LANES] {
        let groups = coding.groups(self.dim);
        &self.scales[(vector / KEY_LANES * groups + group) * KEY_LANES + vector % KEY_LANES]
    }

    /// Adds the values at the positions that R rows see, `seen` of each or all, times the weights of the rows, to `parts`: of each
    /// row as many vectors as values have, and one that is for others.
    #[inline(always)]
    pub fn add<V: Vector, const R: usize, const C: usize>(
        self,
        rows: WeightRows<'_>,
        seen: Option<[Range<usize>; R]>,
        ahead: &mut impl Fetch,
        parts: &mut [Lanes],
        room: &mut WeightRoom,
    ) {
        // Apart, so that each is compiled for its number of bits.
        match self.coding {
            Coding::Eight => self.add_coding::<V, R, C>(Coding::Eight, rows, seen, ahead, parts, room),
            Coding::Four => self.add_coding::<V, R, C>(Coding::Four, rows, seen, ahead, parts, room),
            Coding::Two => self.add_coding::<V, R, C>(Coding::Two, rows, seen, ahead, parts, room),
        }
    }

    #[inline(always)]
    fn add_coding<V: Vector, const R: usize, const C: usize>(
        self,
        coding: Coding,
        rows: WeightRows<'_>,
        seen: Option<[Range<usize>; R]>,
        ahead: &mut impl Fetch,
        parts: &mut [Lanes],
        room: &mut WeightRoom,
    ) {
        let columns = self.dim.div_ceil(LANES);
        let weights = &mut room.0[..R];
        let of_group = group_lanes(coding);
        for first in (0..columns).step_by(COLUMNS) {
            let end = columns.min(first + COLUMNS);
            for i in 0..(end - first).div_ceil(of_group) {
                let group = first / of_group + i;
                let of_all = self.factors::<V>(coding, group, &(0..STEP));
                for (row, weights) in weights.iter_mut().enumerate() {
                    // So that all of them together ask for as many as a chunk has.
                    for _ in 0..LINES_FOR_WEIGHTS {
                        ahead.fetch();
                    }
                    let of_row = &rows.weights[row * rows.stride..][..VECTORS];
                    weights[i] = match &seen {
                        None => Weights::of(of_row, &of_all, coding),
                        // What a row does not see may be NaN.
                        Some(seen) => {
                            let factors = self.factors::<V>(coding, group, &seen[row]);
                            Weights::of(&only(of_row, &seen[row]), &factors, coding)
                        }
                    };
                }
            }
            let mut column = first;
            while column < end {
                let place = Place { first, column };
                column += if column + C <= end {
                    self.add_columns::<V, R, C>(coding, weights, place, ahead, parts)
                } else {
                    self.add_columns::<V, R, 1>(coding, weights, place, ahead, parts)
                };
            }
        }
    }

    /// What weights of a row that sees `seen` are multiplied with, for a group. `coding` as in [`ValueCodes::scales`].
    #[inline(always)]
    pub(super) fn factors<V: Vector>(&self, coding: Coding, group: usize, seen: &Range<usize>) -> Factors {
        let mut scales = [[0.0; LANES]; VECTORS];
        for (i, to) in scales.iter_mut().enumerate() {
            *to = V::from_halves(self.scales(coding, group, i)).to_lanes();
        }
        let mut scales = only(&scales, seen);
        let largest =
            scales.as_flattened().iter().fold(0, |largest, scale| largest.max(scale.to_bits() << 1));
        let largest = f32::from_bits(largest >> 1);
        if !largest.is_finite() {
            return Factors { factors: [[0.0; LANES]; VECTORS], scale: f32::NAN };
        }
        let halves = LARGEST / 2.0 / largest;
        // Those of values that are all 0, or next to it.
        let halves = V::splat(if halves.is_finite() { halves } else { 0.0 });
        for scales in &mut scales {
            *scales = V::from_lanes(scales).mul(halves).to_lanes();
        }
        Factors { factors: scales, scale: largest / LARGEST }
    }

    /// The part of C columns.
    #[inline(always)]
    fn add_columns<V: Vector, const R: usize, const C: usize>(
        &self,
        coding: Coding,
        weights: &[[Weights; MOST_GROUPS]],
        place: Place,
        ahead: &mut impl Fetch,
        parts: &mut [Lanes],
    ) -> usize {
        let Place { first, column } = place;
        let columns = self.dim.div_ceil(LANES);
        let mut codes: [&[[u8; LANES]]; C] = [&[]; C];
        for (i, codes) in codes.iter_mut().enumerate() {
            *codes = self.of_column(column + i);
        }
        let group = |i: usize| (column - first + i) / group_lanes(coding);
        let mut sums = [[V::splat_whole(0); C]; R];
        for (sums, weights) in sums.iter_mut().zip(weights) {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = V::splat_whole(weights[group(i)].start);
            }
        }
        // Each half of all quads by itself, so that the compiler keeps no other in registers.
        for half in 0..2 {
            for at in 0..LANES {
                let mut values = [V::splat_pair(0); C];
                for (values, codes) in values.iter_mut().zip(codes) {
                    // SAFETY: a column has a quad for each position of a vector.
                    *values = unsafe { quad::<V>(coding, codes, at) }[half];
                }
                // A line for 32 bytes of each of two columns.
                for _ in 0..C.div_ceil(2) {
                    ahead.fetch();
                }
                for (sums, weights) in sums.iter_mut().zip(weights) {
                    // SAFETY: as above.
                    let of_group = |group: usize| unsafe { *weights[group].pairs[half].get_unchecked(at) };
                    let first = V::splat_pair(of_group(group(0)));
                    for (i, (sum, values)) in sums.iter_mut().zip(values).enumerate() {
                        // Mostly all are of one group, which the compiler does not see.
                        let weight =
                            if C <= group_lanes(coding) { first } else { V::splat_pair(of_group(group(i))) };
                        *sum = V::add_pair_products(*sum, values, weight);
                    }
                }
            }
        }
        for (row, (sums, weights)) in sums.into_iter().zip(weights).enumerate() {
            let parts = &mut parts[row * (columns + 1) + column..][..C];
            for (i, (part, sum)) in parts.iter_mut().zip(sums).enumerate() {
                let scale = V::splat(weights[group(i)].scale);
                *part = V::from_lanes(part).fma(V::from_wholes(sum), scale).to_lanes();
            }
        }
        C
    }
}

/// Columns that are summed up, of those whose weights begin at column `first`.
struct Place {
    first: usize,
    column: usize,
}

/// What weights are multiplied with, to become halves of whole numbers; and what these are multiplied with then.
pub(super) struct Factors {
    factors: [Lanes; VECTORS],
    scale: f32,
}

/// Those of `seen`, and zeros.
#[inline(always)]
pub(super) fn only(of_step: &[Lanes], seen: &Range<usize>) -> [Lanes; VECTORS] {
    let mut some = [[0.0; LANES]; VECTORS];
    for (i, (to, value)) in some.as_flattened_mut().iter_mut().zip(of_step.as_flattened()).enumerate() {
        *to = if i.wrapping_sub(seen.start) < seen.len() { *value } else { 0.0 };
    }
    some
}

/// Weights of a row times the scales of a group of dimensions.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    /// Those of two positions each, the first in the low half.
    pub(super) pairs: [[i32; LANES]; 2],
    /// What a sum of products with codes begins with, so that it becomes one with codes less their center.
    pub(super) start: i32,
    /// What such a sum is multiplied with.
    pub(super) scale: f32,
}

impl Weights {
    const ZERO: Weights = Weights { pairs: [[0; LANES]; 2], start: 0, scale: 0.0 };

    /// Of the weights of a step.
    #[inline(always)]
    pub(super) fn of(weights: &[Lanes], of_group: &Factors, coding: Coding) -> Weights {
        let Factors { factors, scale } = of_group;
        let mut pairs = [[0; LANES]; 2];
        let mut sums = [0u32; LANES];
        let two = weights.as_chunks::<2>().0.iter().zip(factors.as_chunks::<2>().0);
        for (pairs, (weights, factors)) in pairs.iter_mut().zip(two) {
            for i in 0..LANES {
                // The low bits are the whole number.
                let first = (weights[0][i] * factors[0][i] + ROUNDER).to_bits();
                let second = (weights[1][i] * factors[1][i] + ROUNDER).to_bits();
                sums[i] = sums[i].wrapping_add(first).wrapping_add(second);
                // Twice that, for half a center may be what is subtracted from a code.
                pairs[i] = (second << 17 | first << 1 & 0xFFFF) as i32;
            }
        }
        let sum = sums.into_iter().fold(0, u32::wrapping_add);
        let sum = sum.wrapping_sub(ROUNDER.to_bits().wrapping_mul(STEP as u32)) as i32;
        let twice_center = (2.0 * coding.stored_center()) as i32;
        Weights { pairs, start: sum.wrapping_mul(twice_center).wrapping_neg(), scale: *scale }
    }
}
