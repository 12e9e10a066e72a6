//! Weights of a row of a chunk as bytes.
//!
//! They are relative to the largest of the chunk, which has nearly all of a byte. What is rounded away is spread by a pattern over the
//! positions, so that the many small weights of a long text keep their sum. Where one weight makes much of all that a query sees, that
//! is not enough: then they have a second byte.

use super::super::lanes::{LANES, Lanes};
use super::super::power_of_two::ROUNDER;
use super::super::vector::{Vector, VectorWork};
use super::byte_room::CHUNK_LANES;
use super::sizes::{CHUNK, STEP};
use std::f32::consts::LOG2_E;

/// The largest weight: with what the pattern adds, and with a 16th of a power of two for rounding, it stays below 256.
pub(super) const MOST: f32 = 240.0;
/// Its binary logarithm.
const LOG2_MOST: f32 = 7.906_890_6;
/// The largest score that weights are sure to hold: its binary logarithm has steps of a 64th.
pub(super) const TOO_LARGE: f32 = 131_072.0;
/// 2^x for x from 0 to 1, from x^3 down: the polynomial of the least largest error, 7.5e-5 of the result.
const POWER: [f32; 4] = [0.078_024_52, 0.226_067_16, 0.695_833_5, 0.999_925_2];
/// Weights below 2^-64 of the largest count as that.
const LEAST: f32 = -64.0;
/// What a part of a byte counts in the second one.
pub(super) const SECOND: f32 = 1.0 / 255.0;
/// Bytes from one row of weights to the next: more than it has, for rows a power of two apart would meet in the same few sets of a
/// cache.
pub(super) const WEIGHT_BYTES: usize = CHUNK + 64;
/// Vectors of 16 positions of a step.
const STEP_LANES: usize = STEP / LANES;

/// What is added to weights before they are cut: the fractions of multiples of the golden ratio, below 1.
pub(super) static PATTERN: [Lanes; CHUNK_LANES] = {
    let mut pattern = [[0.0; LANES]; CHUNK_LANES];
    let mut i = 0;
    while i < CHUNK {
        let fraction = (i as u32 + 1).wrapping_mul(0x9E37_79B9) >> 24;
        pattern[i / LANES][i % LANES] = (fraction as f32 + 0.5) / 256.0;
        i += 1;
    }
    pattern
};

/// Rows that become weights.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Of each row sums of products with keys, of which `sum * keys + offsets` is a score, or scores already.
    pub scores: &'a [Lanes],
    /// Vectors from one row to the next.
    pub stride: usize,
    /// Of sums.
    pub of_keys: Option<[&'a [Lanes]; 2]>,
    /// What scores of each row are multiplied with.
    pub scales: &'a Lanes,
    /// What values are multiplied with, and [`PATTERN`].
    pub given: [&'a [Lanes]; 2],
}

/// Makes rows weights times the scales of values.
pub(super) struct Weigh<'a> {
    pub rows: Rows<'a>,
    /// Those of them whose weights are wanted: others get none.
    pub wanted: &'a [bool; LANES],
    /// Of each row, [`WEIGHT_BYTES`] from one to the next.
    pub bytes: &'a mut [u8],
    /// Become the largest score of each row, before it is multiplied, and the sum of its weights.
    pub largest: &'a mut Lanes,
    pub totals: &'a mut Lanes,
}

impl VectorWork for Weigh<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.rows.of_keys {
            Some(of_keys) => weigh::<V, true>(self, of_keys),
            // Not read.
            None => {
                let of_keys = [self.rows.given[0]; 2];
                weigh::<V, false>(self, of_keys);
            }
        }
    }
}

/// [`Weigh`] with second bytes, which count a 255th of the first; without the sums.
pub(super) struct WeighTwice<'a> {
    pub rows: Rows<'a>,
    /// Those which get second bytes; those of others are zeros, and their first stay what they are.
    pub wanted: &'a [bool; LANES],
    pub bytes: &'a mut [u8],
    pub largest: &'a Lanes,
    pub second: &'a mut [u8],
}

impl VectorWork for WeighTwice<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.rows.of_keys {
            Some(of_keys) => weigh_twice::<V, true>(self, of_keys),
            // Not read.
            None => {
                let of_keys = [self.rows.given[0]; 2];
                weigh_twice::<V, false>(self, of_keys);
            }
        }
    }
}

#[inline(always)]
fn weigh<V: Vector, const OF_KEYS: bool>(weigh: Weigh<'_>, of_keys: [&[Lanes]; 2]) {
    let Weigh { rows, wanted, bytes, largest, totals } = weigh;
    let [keys, offsets] = of_keys.map(|vectors| vectors.as_chunks::<STEP_LANES>().0);
    let [scales, pattern] = rows.given.map(|vectors| vectors.as_chunks::<STEP_LANES>().0);
    // All rows before any weight, so that no row waits for its largest score.
    for (row, scores) in rows.scores.chunks(rows.stride).enumerate() {
        let mut most = [V::splat(f32::MIN); STEP_LANES];
        let steps = scores.as_chunks::<STEP_LANES>().0.iter().zip(keys.iter().zip(offsets));
        for (scores, (keys, offsets)) in steps {
            for i in 0..STEP_LANES {
                most[i] = most[i].or_larger(score_of::<V, OF_KEYS>(&scores[i], &keys[i], &offsets[i]));
            }
        }
        let [a, b, c, d] = most;
        largest[row] = a.or_larger(b).or_larger(c.or_larger(d)).largest();
    }
    let all = bytes.chunks_mut(WEIGHT_BYTES).zip(rows.scores.chunks(rows.stride));
    for (row, (bytes, scores)) in all.enumerate() {
        let bytes = bytes.as_chunks_mut::<STEP>().0;
        if !wanted[row] {
            bytes[..scales.len()].fill([0; STEP]);
            continue;
        }
        let [scale, origin] = scale_and_origin(rows.scales[row], largest[row]).map(V::splat);
        let mut sums = [V::splat(0.0); STEP_LANES];
        let given = scales.iter().zip(pattern).zip(keys.iter().zip(offsets));
        let steps = bytes.iter_mut().zip(scores.as_chunks::<STEP_LANES>().0).zip(given);
        for ((bytes, scores), ((scales, pattern), (keys, offsets))) in steps {
            let mut weights = [V::splat(0.0); STEP_LANES];
            for i in 0..STEP_LANES {
                let score = score_of::<V, OF_KEYS>(&scores[i], &keys[i], &offsets[i]);
                let weight = power(origin.fma(score, scale));
                sums[i] = sums[i].add(weight);
                weights[i] = V::from_lanes(&pattern[i]).fma(weight, V::from_lanes(&scales[i]));
            }
            *bytes = V::to_bytes(weights);
        }
        let [a, b, c, d] = sums;
        totals[row] = a.add(b).add(c.add(d)).sum();
    }
}

#[inline(always)]
fn weigh_twice<V: Vector, const OF_KEYS: bool>(weigh: WeighTwice<'_>, of_keys: [&[Lanes]; 2]) {
    let WeighTwice { rows, wanted, bytes, largest, second } = weigh;
    let [keys, offsets] = of_keys.map(|vectors| vectors.as_chunks::<STEP_LANES>().0);
    let (scales, rounder) = (rows.given[0].as_chunks::<STEP_LANES>().0, V::splat(ROUNDER));
    let all = bytes.chunks_mut(WEIGHT_BYTES).zip(second.chunks_mut(WEIGHT_BYTES));
    for (row, ((bytes, second), scores)) in all.zip(rows.scores.chunks(rows.stride)).enumerate() {
        let (bytes, second) = (bytes.as_chunks_mut::<STEP>().0, second.as_chunks_mut::<STEP>().0);
        if !wanted[row] {
            second[..scales.len()].fill([0; STEP]);
            continue;
        }
        let [scale, origin] = scale_and_origin(rows.scales[row], largest[row]).map(V::splat);
        let given = scores.as_chunks::<STEP_LANES>().0.iter().zip(scales).zip(keys.iter().zip(offsets));
        let steps = bytes.iter_mut().zip(second).zip(given);
        for ((bytes, second), ((scores, scales), (keys, offsets))) in steps {
            let (mut firsts, mut seconds) = ([V::splat(0.0); STEP_LANES], [V::splat(0.0); STEP_LANES]);
            for i in 0..STEP_LANES {
                let score = score_of::<V, OF_KEYS>(&scores[i], &keys[i], &offsets[i]);
                let weight = power(origin.fma(score, scale)).mul(V::from_lanes(&scales[i]));
                // Below the weight, or it.
                firsts[i] = weight.sub(V::splat(0.5)).add(rounder).sub(rounder);
                seconds[i] = V::splat(0.5).fma(weight.sub(firsts[i]), V::splat(1.0 / SECOND));
            }
            (*bytes, *second) = (V::to_bytes(firsts), V::to_bytes(seconds));
        }
    }
}

/// A vector of the scores of a row, before they are multiplied.
#[inline(always)]
pub(super) fn score_of<V: Vector, const OF_KEYS: bool>(scores: &Lanes, keys: &Lanes, offsets: &Lanes) -> V {
    if OF_KEYS {
        V::from_lanes(offsets).fma(V::from_integer_bits(scores), V::from_lanes(keys))
    } else {
        V::from_lanes(scores)
    }
}

/// What scores of a row are multiplied with, and what is added then, for binary logarithms of weights. The largest weight may come out
/// a little more than [`MOST`]: by a 16th of a power of two, of scores that are as large as they may be.
#[inline(always)]
fn scale_and_origin(scale: f32, largest: f32) -> [f32; 2] {
    let scale = scale * LOG2_E;
    [scale, (-largest).mul_add(scale, LOG2_MOST)]
}

/// `2^x`, and `2^LEAST` for all below [`LEAST`].
#[inline(always)]
fn power<V: Vector>(x: V) -> V {
    let x = x.or_larger(V::splat(LEAST));
    let rest = x.fraction();
    let mut p = V::splat(POWER[0]);
    for c in &POWER[1..] {
        p = V::splat(*c).fma(p, rest);
    }
    p.times_power_below(x)
}
