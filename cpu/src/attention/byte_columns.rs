//! Keys and values of a chunk as bytes, for products with many queries.
//!
//! A key less a reference, which is about the mean of keys, is `scale * code`: all of a head's keys may have much in common, as biases
//! give them, and that would leave few codes for what tells them apart (SageAttention, arXiv 2410.02367). What queries give the
//! reference is part of their scores, and computed once, in floats. Before, dimensions are [rotated](super::super::hadamard), so that
//! outliers are spread.

use std::ops::Range;

use super::super::byte_products::{COLUMNS, NO_QUADS, QUAD, QuadLine};
use super::super::hadamard::{hadamard_across, hadamard_block};
use super::super::lanes::{LANES, Lanes};
use super::super::power_of_two::ROUNDER;
use super::super::vector::Vector;
use super::byte_room::{ByteColumns, Scales};
use super::layer::KvHead;
use super::room::StepRoom;
use super::sizes::{CHUNK, STEP};
use super::stored::KEY_LANES;

/// Vectors of the positions of a step.
const STEP_LANES: usize = STEP / LANES;
/// Quads of positions of a chunk.
pub(super) const CHUNK_QUADS: usize = CHUNK / QUAD;
/// The largest code.
pub(super) const MOST: f32 = 127.0;
/// The code of a query that is added to make it a byte without a sign.
pub(super) const QUERY_CENTER: i32 = 128;
/// Positions whose keys the reference is the mean of, the last ones.
const REFERENCE: usize = 128;

/// The quads of dimensions of a head.
pub(super) const fn quads(dim: usize) -> usize {
    dim.div_ceil(QUAD)
}

/// The largest magnitudes of lanes, and the sums of their squares: not finite where something was not.
pub(super) struct Magnitudes<V> {
    pub largest: V,
    pub squares: V,
}

impl<V: Vector> Magnitudes<V> {
    #[inline(always)]
    pub fn none() -> Magnitudes<V> {
        Magnitudes { largest: V::splat(0.0), squares: V::splat(0.0) }
    }

    #[inline(always)]
    pub fn add(&mut self, values: V) {
        self.largest = self.largest.or_larger(values).or_larger(V::splat(0.0).sub(values));
        self.squares = self.squares.fma(values, values);
    }
}

/// Sets `out`, a value for each dimension, to the mean of the last keys of positions `held`.
#[inline(always)]
pub(super) fn reference<V: Vector>(
    kv: &KvHead<'_>,
    held: &Range<usize>,
    room: &mut StepRoom,
    out: &mut [f32],
) {
    let dim = kv.dim();
    let some = held.start.max(held.end.saturating_sub(REFERENCE))..held.end;
    out.fill(0.0);
    let mut start = some.start;
    while start < some.end {
        let end = some.end.min((start / STEP + 1) * STEP);
        let keys = kv.keys::<V>(start..end, &mut room.keys);
        for position in start..end {
            let (vector, lane) = (position % STEP / LANES, position % LANES);
            let first = vector / KEY_LANES * KEY_LANES * dim + vector % KEY_LANES;
            for (j, out) in out.iter_mut().enumerate() {
                *out += keys[first + KEY_LANES * j][lane];
            }
        }
        start = end;
    }
    out.iter_mut().for_each(|out| *out /= some.len() as f32);
}

impl ByteColumns {
    /// Makes them those of positions `held` of the chunk that begins at `start`. Returns the length of the longest key less the
    /// `reference`, which is not finite where any key or value is not.
    #[inline(always)]
    pub fn fill<V: Vector>(
        &mut self,
        kv: &KvHead<'_>,
        start: usize,
        held: Range<usize>,
        reference: &[f32],
        room: &mut StepRoom,
    ) -> f32 {
        let ByteColumns { keys, values, scales, rotated } = self;
        let (dim, columns) = (kv.dim(), kv.columns());
        let quads = quads(dim);
        keys.resize(CHUNK / COLUMNS * quads, NO_QUADS);
        values.resize(columns.div_ceil(KEY_LANES) * CHUNK_QUADS, NO_QUADS);
        rotated.resize(QUAD * quads, [0.0; LANES]);
        rotated[dim..].fill([0.0; LANES]);
        *scales = Scales::default();
        // The keys of codes are rotated already.
        let block = if kv.rotated_keys() > 1 { 1 } else { hadamard_block(dim) };
        let (mut longest_key, mut longest_value, mut largest_value) = (0, 0, 0.0);
        for step in (0..CHUNK).step_by(STEP) {
            let held = held.start.max(start + step)..held.end.min(start + step + STEP);
            if held.is_empty() {
                continue;
            }
            let stored = kv.keys::<V>(held.clone(), &mut room.keys);
            for i in 0..STEP_LANES {
                let vector = step / LANES + i;
                let first = i / KEY_LANES * KEY_LANES * dim + i % KEY_LANES;
                for (j, (to, reference)) in rotated[..dim].iter_mut().zip(reference).enumerate() {
                    let key = V::from_lanes(&stored[first + KEY_LANES * j]);
                    *to = key.sub(V::splat(*reference)).to_lanes();
                }
                hadamard_vectors::<V>(&mut rotated[..dim], block);
                let mut magnitudes = Magnitudes::<V>::none();
                for key in rotated[..dim].iter() {
                    magnitudes.add(V::from_lanes(key));
                }
                let (mut largest, squares) = (magnitudes.largest.to_lanes(), magnitudes.squares.to_lanes());
                let (mut inverses, mut sums) = ([0.0; LANES], [0i32; LANES]);
                for lane in 0..LANES {
                    let is_held = held.contains(&(start + vector * LANES + lane));
                    largest[lane] = if is_held { largest[lane] } else { 0.0 };
                    // NaN has larger bits than all numbers.
                    longest_key = longest_key.max(if is_held { squares[lane].to_bits() } else { 0 });
                    inverses[lane] = MOST / largest[lane];
                }
                let lines = &mut keys[vector / KEY_LANES * quads..][..quads];
                let inverses = [V::from_lanes(&inverses); QUAD];
                for (four, to) in rotated.as_chunks::<QUAD>().0.iter().zip(lines) {
                    to[vector % KEY_LANES] = quad(four, &inverses, &mut sums);
                }
                for lane in 0..LANES {
                    let scale = largest[lane] / MOST;
                    scales.keys[vector][lane] = scale;
                    scales.offsets[vector][lane] = sums[lane].wrapping_mul(-QUERY_CENTER) as f32 * scale;
                }
            }
            let stored = kv.values::<V>(held.clone(), &mut room.values);
            let mut inverses = [0.0; STEP];
            for position in held.clone() {
                let at = position - start - step;
                let mut magnitudes = Magnitudes::<V>::none();
                for value in &stored[at * columns..][..columns] {
                    magnitudes.add(V::from_lanes(value));
                }
                let largest = magnitudes.largest.largest();
                longest_value = longest_value.max(magnitudes.squares.sum().to_bits());
                largest_value = if largest > largest_value { largest } else { largest_value };
                inverses[at] = if largest > 0.0 { MOST / largest } else { 0.0 };
                scales.values.as_flattened_mut()[step + at] = largest / MOST;
            }
            for (four, inverses) in inverses.as_chunks::<QUAD>().0.iter().enumerate() {
                let inverses = inverses.map(V::splat);
                for column in 0..columns {
                    let value = |j: usize| stored[(four * QUAD + j) * columns + column];
                    let to = &mut values[column / KEY_LANES * CHUNK_QUADS + step / QUAD + four];
                    to[column % KEY_LANES] =
                        quad(&[value(0), value(1), value(2), value(3)], &inverses, &mut [0; LANES]);
                }
            }
        }
        scales.largest_value = largest_value / MOST;
        if scales.largest_value > 0.0 {
            let mut sum = 0.0;
            for scale in scales.values.as_flattened_mut() {
                *scale /= scales.largest_value;
                sum += *scale;
            }
            scales.mean_value = sum / held.len() as f32;
        }
        if f32::from_bits(longest_value).is_finite() { f32::from_bits(longest_key).sqrt() } else { f32::NAN }
    }
}

/// Codes of four vectors times `inverses`, side by side; and their sums, added to `sums`. What is not a number gives any.
#[inline(always)]
pub(super) fn quad<V: Vector>(
    vectors: &[Lanes; QUAD],
    inverses: &[V; QUAD],
    sums: &mut [i32; LANES],
) -> QuadLine {
    let mut codes = [[0; LANES]; QUAD];
    for (codes, (vector, inverse)) in codes.iter_mut().zip(vectors.iter().zip(inverses)) {
        let rounded = V::splat(ROUNDER).fma(V::from_lanes(vector), *inverse).to_lanes();
        for (code, rounded) in codes.iter_mut().zip(rounded) {
            *code = rounded.to_bits().wrapping_sub(ROUNDER.to_bits());
        }
    }
    let mut line = QuadLine([0; LANES]);
    for lane in 0..LANES {
        let [a, b, c, d] = [codes[0][lane], codes[1][lane], codes[2][lane], codes[3][lane]];
        sums[lane] = sums[lane].wrapping_add(a.wrapping_add(b).wrapping_add(c).wrapping_add(d) as i32);
        line.0[lane] = a & 0xFF | (b & 0xFF) << 8 | (c & 0xFF) << 16 | d << 24;
    }
    line
}

/// [`hadamard`](super::super::hadamard::hadamard) of 16 rows of values at once: a vector has a value of each.
#[inline(always)]
pub(super) fn hadamard_vectors<V: Vector>(vectors: &mut [Lanes], block: usize) {
    if block <= 1 {
        return;
    }
    let scale = V::splat((1.0 / (block as f64).sqrt()) as f32);
    for vectors in vectors.chunks_exact_mut(block) {
        hadamard_across::<V>(vectors);
        for vector in vectors {
            *vector = V::from_lanes(vector).mul(scale).to_lanes();
        }
    }
}
