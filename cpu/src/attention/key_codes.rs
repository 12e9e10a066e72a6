//! Products of queries with keys that are stored in codes, in whole numbers.
//!
//! A key is `scale * (code - center)`, with a scale for 64 dimensions, or for 32. Of a query as many become whole numbers of 8 bits with
//! one scale, too: rotated values, as keys are, so the error is that of keys in codes of 8 bits (docs/measurements/key-value-cache.md).
//! The sum of products over these dimensions is exact, in any order; it becomes a float and is multiplied with both scales, and such
//! floats are added up in ascending order. Four products at once, or two, take few instructions, and no code is turned into a float.

use super::super::lanes::{LANES, Lanes, largest_magnitude};
use super::super::vector::{Quad, Vector};
use super::codes::Coding;
use super::fetch::Fetch;
use super::stored::{KEY_LANES, QUAD, key_arrays};
use super::tile::{MOST_AT_ONCE, ROW_LANES};

/// Dimensions of a [`QueryPart`]. With more, keys of few bits took 3 % longer.
pub(super) const PART: usize = 32;
/// Quads of these.
const PART_QUADS: usize = PART / QUAD;
/// The largest whole number that a query is made of.
const LARGEST: f32 = 127.0;
/// Added, it rounds what is below 2^22 to whole numbers, ties to even, and its own bits are so many less.
const ROUNDER: f32 = 12_582_912.0;

/// 32 dimensions of a query. Those of a group of keys share a scale.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryPart {
    pub(super) quads: [Quad; PART_QUADS],
    /// Of the first part of a group, what its sum of products with codes begins with, so that it becomes one with codes less their center.
    start: i32,
    /// What the sum of a group is multiplied with, beside the scale of the key.
    pub(super) scale: f32,
}

impl QueryPart {
    pub const ZERO: QueryPart = QueryPart { quads: [Quad::ZERO; PART_QUADS], start: 0, scale: 0.0 };

    /// Sets `parts` to values of up to a group, whose products with keys are scores when they are multiplied with `scale`. What is not
    /// finite makes all scores NaN.
    #[inline(always)]
    pub fn set<V: Vector>(parts: &mut [QueryPart], values: &[f32], scale: f32, coding: Coding) {
        let largest = largest_magnitude(values);
        if !largest.is_finite() {
            return parts.fill(QueryPart { scale: f32::NAN, ..QueryPart::ZERO });
        }
        let (step, bias) = match coding {
            Coding::Eight => (1, V::QUAD_BIAS),
            Coding::Four => (1, 0),
            // Half a center is what is subtracted from a code.
            Coding::Two => (2, 0),
        };
        let steps = (LARGEST / step as f32).floor();
        let per_step = if largest > 0.0 { steps / largest } else { 0.0 };
        // That of values which are subnormal, and do not matter beside others.
        let per_step = if per_step.is_finite() { per_step } else { 0.0 };
        let twice_center = (2.0 * coding.stored_center()) as i32 + 2 * bias;
        let (mut sum, scale) = (0, largest / (steps * step as f32) * scale);
        for (part, values) in parts.iter_mut().zip(values.chunks(PART)) {
            let mut wholes = [0; PART];
            for (whole, value) in wholes.iter_mut().zip(values) {
                *whole = step * (value * per_step + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits()) as i32;
            }
            sum += wholes.iter().sum::<i32>();
            let mut quads = [Quad::ZERO; PART_QUADS];
            for (quad, wholes) in quads.iter_mut().zip(wholes.as_chunks().0) {
                *quad = Quad::new(*wholes);
            }
            *part = QueryPart { quads, start: 0, scale };
        }
        if let Some(first) = parts.first_mut() {
            first.start = -(sum * twice_center / 2);
        }
    }
}

/// Keys in codes, of whole blocks.
#[derive(Clone, Copy)]
pub(super) struct KeyCodes<'a> {
    pub coding: Coding,
    pub dim: usize,
    /// As [`Order::Keys`](super::stored::Order::Keys) says.
    pub codes: &'a [[u8; LANES]],
    /// For blocks of 32 positions: those of all for the first group, then for the next.
    pub scales: &'a [[u16; LANES]],
}

impl KeyCodes<'_> {
    /// The keys as floats, in the order that floats have: what a matrix unit rounds.
    #[inline(always)]
    pub fn to_floats<V: Vector>(self, out: &mut [Lanes]) {
        let center = V::splat(self.coding.stored_center());
        for (block, out) in out.chunks_exact_mut(KEY_LANES * self.dim).enumerate() {
            for (i, out) in out.iter_mut().enumerate() {
                let (i, vector) = (i / KEY_LANES, block * KEY_LANES + i % KEY_LANES);
                // SAFETY: they have it.
                let pairs = unsafe { quad::<V>(self.coding, self.of_vector(vector), i / QUAD) }[i % QUAD / 2];
                // One times the code that is meant, and nothing times the other.
                let one = V::splat_pair(1 << (16 * (i % 2)));
                let code = V::from_wholes(V::add_pair_products(V::splat_whole(0), pairs, one));
                *out = code
                    .sub(center)
                    .mul(self.scale::<V>(self.coding, vector, i / self.coding.group()))
                    .to_lanes();
            }
        }
    }

    /// Codes of the keys of a vector of 16 positions.
    #[inline(always)]
    pub(super) fn of_vector(&self, vector: usize) -> &[[u8; LANES]] {
        let arrays = key_arrays(self.coding, self.dim);
        &self.codes[vector * arrays..][..arrays]
    }

    /// Scales of a group of their dimensions. `coding` is that of all, which callers know when they are compiled.
    #[inline(always)]
    pub(super) fn scale<V: Vector>(&self, coding: Coding, vector: usize, group: usize) -> V {
        let groups = coding.groups(self.dim);
        let (block, half) = (vector / KEY_LANES, vector % KEY_LANES);
        V::from_halves(&self.scales[(block * groups + group) * KEY_LANES + half])
    }

    /// The scores that R rows of queries, the parts of each behind each other, give to C vectors of 16 positions from `vector`
    /// on: for each row, C vectors of its own `scores`, which are [`ROW_LANES`] apart.
    #[inline(always)]
    pub fn score<V: Vector, const R: usize, const C: usize>(
        &self,
        queries: &[QueryPart],
        vector: usize,
        ahead: &mut impl Fetch,
        scores: &mut [Lanes],
    ) {
        // Apart, so that each is compiled for its number of bits.
        match self.coding {
            Coding::Eight => self.score_coding::<V, R, C>(Coding::Eight, queries, vector, ahead, scores),
            Coding::Four => self.score_coding::<V, R, C>(Coding::Four, queries, vector, ahead, scores),
            Coding::Two => self.score_coding::<V, R, C>(Coding::Two, queries, vector, ahead, scores),
        }
    }

    #[inline(always)]
    fn score_coding<V: Vector, const R: usize, const C: usize>(
        &self,
        coding: Coding,
        queries: &[QueryPart],
        vector: usize,
        ahead: &mut impl Fetch,
        scores: &mut [Lanes],
    ) {
        let (groups, parts) = (coding.groups(self.dim), self.dim.div_ceil(PART));
        let (queries, scores) = (&queries[..R * parts], &mut scores[..(R - 1) * ROW_LANES + C]);
        let mut codes: [&[[u8; LANES]]; C] = [&[]; C];
        for (i, codes) in codes.iter_mut().enumerate() {
            *codes = self.of_vector(vector + i);
        }
        // As many as there are lines; half of them where weights of many rows follow, which ask for lines, too.
        let lines = if V::QUAD_PARTS == 2 || R == MOST_AT_ONCE { C.div_ceil(2) } else { C };
        let mut of_rows = [&QueryPart::ZERO; R];
        for group in 0..groups {
            let first = group * coding.group() / PART;
            let mut sums = [[V::splat_whole(0); C]; R];
            for (row, sums) in sums.iter_mut().enumerate() {
                *sums = [V::splat_whole(queries[row * parts + first].start); C];
            }
            for part in first..parts.min(first + coding.group() / PART) {
                for (row, of_row) in of_rows.iter_mut().enumerate() {
                    *of_row = &queries[row * parts + part];
                }
                let quads = (self.dim - part * PART).div_ceil(QUAD).min(PART_QUADS);
                // Each part of all quads by itself, so that the compiler keeps no other in registers.
                for of_quad in 0..V::QUAD_PARTS {
                    for at in 0..quads {
                        let mut keys = [V::splat_pair(0); C];
                        for (keys, codes) in keys.iter_mut().zip(codes) {
                            // SAFETY: below a quarter of the dimensions, rounded up.
                            *keys =
                                unsafe { part_of_quad::<V>(coding, codes, part * PART_QUADS + at, of_quad) };
                        }
                        for _ in 0..lines {
                            ahead.fetch();
                        }
                        for (sums, of_row) in sums.iter_mut().zip(of_rows) {
                            // SAFETY: one of those of a part.
                            let quad = unsafe { of_row.quads.get_unchecked(at) };
                            for (sum, keys) in sums.iter_mut().zip(keys) {
                                *sum = V::add_quad_products(*sum, keys, quad, of_quad);
                            }
                        }
                    }
                }
            }
            let mut scales = [V::splat(0.0); C];
            for (i, scale) in scales.iter_mut().enumerate() {
                *scale = self.scale::<V>(coding, vector + i, group);
            }
            for (row, (sums, of_row)) in sums.into_iter().zip(of_rows).enumerate() {
                let scores = &mut scores[row * ROW_LANES..][..C];
                for ((score, sum), scale) in scores.iter_mut().zip(sums).zip(scales) {
                    let so_far = if group == 0 { V::splat(0.0) } else { V::from_lanes(score) };
                    let scale = scale.mul(V::splat(of_row.scale));
                    *score = so_far.fma(V::from_wholes(sum), scale).to_lanes();
                }
            }
        }
    }
}

/// Four dimensions of the keys at 16 positions, or four positions of the values of 16 dimensions: the first two, and the others.
///
/// # Safety
/// `codes` must be those of keys or values that have the quad.
#[inline(always)]
pub(super) unsafe fn quad<V: Vector>(coding: Coding, codes: &[[u8; LANES]], at: usize) -> [V::Pairs; 2] {
    match coding {
        Coding::Eight => {
            // SAFETY: four arrays for each quad, by the caller's promise.
            let bytes = unsafe { &*codes.as_ptr().add(QUAD * at).cast::<[u8; QUAD * LANES]>() };
            V::pairs_from_bytes(bytes)
        }
        Coding::Four => {
            // SAFETY: two arrays for each quad, by the caller's promise.
            let bytes = unsafe { [codes.get_unchecked(2 * at), codes.get_unchecked(2 * at + 1)] };
            [V::pairs_from_codes(bytes[0], 0, 4), V::pairs_from_codes(bytes[1], 0, 4)]
        }
        Coding::Two => {
            // SAFETY: an array for each quad, by the caller's promise.
            let bytes = unsafe { codes.get_unchecked(at) };
            [V::pairs_from_codes(bytes, 0, 2), V::pairs_from_codes(bytes, 4, 2)]
        }
    }
}

/// A part of four dimensions of the keys at 16 positions, as [`Vector::add_quad_products`] takes it.
///
/// # Safety
/// `codes` must be those of keys that have the quad.
#[inline(always)]
unsafe fn part_of_quad<V: Vector>(coding: Coding, codes: &[[u8; LANES]], at: usize, part: usize) -> V::Pairs {
    match coding {
        Coding::Eight => {
            // SAFETY: four arrays for each quad, by the caller's promise.
            let bytes = unsafe { &*codes.as_ptr().add(QUAD * at).cast::<[u8; QUAD * LANES]>() };
            V::quads_from_bytes(bytes, part)
        }
        Coding::Four => {
            // SAFETY: two arrays for each quad, by the caller's promise.
            let bytes = unsafe { [codes.get_unchecked(2 * at), codes.get_unchecked(2 * at + 1)] };
            V::quads_from_nibbles(bytes, part)
        }
        Coding::Two => {
            // SAFETY: an array for each quad, by the caller's promise.
            let bytes = unsafe { codes.get_unchecked(at) };
            V::quads_from_two_bits(bytes, part)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::aligned::AlignedFloats;
    use super::super::super::slabs::Slabs;
    use super::super::KvType;
    use super::super::fetch::NothingAhead;
    use super::super::stored::{KEY_BLOCK, Order, StoredShape};
    use super::*;

    fn floats(seed: usize, len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7_919 + seed * 104_729) % 2_003) as f32 / 500.0 - 2.0).collect()
    }

    /// Scores of a query over a block of keys; what they are of the keys that are stored; and by how much 8 bits for each part of the
    /// query may miss that.
    fn scores(kv_type: KvType, query: &[f32], scale: f32) -> Vec<(f32, f64, f64)> {
        let dim = query.len();
        let shape = StoredShape { kv_type, order: Order::Keys, dim, positions: KEY_BLOCK };
        let mut stored = shape.zeros(&mut Slabs::default()).unwrap();
        for position in 0..KEY_BLOCK {
            stored.write::<Lanes>(position, &floats(position, dim), &mut AlignedFloats::default());
        }
        let keys = stored.key_codes(0, KEY_BLOCK).unwrap();
        let mut parts = vec![QueryPart::ZERO; dim.div_ceil(PART)];
        let group = keys.coding.group();
        for (parts, values) in parts.chunks_mut(group / PART).zip(query.chunks(group)) {
            QueryPart::set::<Lanes>(parts, values, scale, keys.coding);
        }
        let mut found = [[0.0; LANES]; KEY_LANES];
        keys.score::<Lanes, 1, KEY_LANES>(&parts, 0, &mut NothingAhead, &mut found);
        let mut room = vec![[0.0; LANES]; KEY_LANES * dim];
        keys.to_floats::<Lanes>(&mut room);
        let largest = query.iter().fold(0.0, |largest, q| q.abs().max(largest));
        // Half a step is what rounding may miss, and a little what sums of floats may.
        let half_steps = if kv_type == KvType::Q2 { 125.9 } else { 253.9 };
        let of_position = |(position, found): (usize, &f32)| {
            let key = |i: usize| f64::from(room[i * KEY_LANES + position / LANES][position % LANES]);
            let exact: f64 = query.iter().enumerate().map(|(i, q)| f64::from(*q) * key(i)).sum();
            let keys: f64 = (0..dim).map(|i| key(i).abs()).sum();
            (*found, exact * f64::from(scale), keys * f64::from(largest * scale) / half_steps)
        };
        found.as_flattened().iter().enumerate().map(of_position).collect()
    }

    #[test]
    fn scores_are_those_of_the_stored_keys_within_what_8_bits_of_the_query_give() {
        for kv_type in [KvType::Q8, KvType::Q4, KvType::Q2] {
            for dim in [1, 2, 3, 31, 33, 64, 70, 300] {
                for size in [1e-20, 1.0, 1e6] {
                    let query: Vec<f32> = floats(77, dim).into_iter().map(|q| q * size).collect();
                    for (found, exact, error) in scores(kv_type, &query, 0.125) {
                        assert!(
                            (f64::from(found) - exact).abs() <= error,
                            "{kv_type:?} {dim} {size}: {found}, expected {exact} within {error}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn damage_of_a_query_shows_and_next_to_nothing_gives_no_score() {
        for kv_type in [KvType::Q8, KvType::Q4, KvType::Q2] {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut query = floats(3, 70);
                query[40] = bad;
                assert!(
                    scores(kv_type, &query, 1.0).iter().all(|(score, ..)| score.is_nan()),
                    "{kv_type:?} {bad}"
                );
            }
            for small in [0.0, f32::MIN_POSITIVE, 1e-44] {
                let found = scores(kv_type, &[small; 70], 1.0);
                assert!(
                    found.iter().all(|(score, ..)| score.abs() < 1e-35),
                    "{kv_type:?} {small}: {found:?}"
                );
            }
        }
    }
}
