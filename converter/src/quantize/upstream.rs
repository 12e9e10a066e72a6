//! Weights that make up for what quantized layers before have done to their inputs (GPTAQ, arXiv 2504.02692).
//!
//! A matrix W is fed x after quantization where it was fed y before. The matrix closest to the old outputs on the new
//! inputs, `min |W' x - W y|^2`, is `W' = W C H^-1` with `C = mean of y x'` and `H = mean of x x'`.

use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};
use rayon::prelude::*;

use super::feedback::{Feedback, Ordered};
use super::group::RowGroup;
use super::strips::{STRIP, Strips, accumulate};
use super::vectors::ZEROS;

/// `W + part * (W C H^-1 - W)` for whole rows of W, with the damped H of `feedback` and the same damping added to C: without
/// a difference between `cross` (C) and `moment` (H before damping), both `n * n` and row by row, W stays as it is.
///
/// # Panics
/// When lengths do not fit the columns of `feedback`.
pub fn upstream_target(
    isa: Isa,
    values: &[f32],
    feedback: &Feedback,
    cross: &[f32],
    moment: &[f32],
    part: f32,
) -> Vec<f32> {
    let cols = feedback.cols();
    assert!(cross.len() == cols * cols && moment.len() == cols * cols, "moments of {cols} columns");
    assert!(values.len().is_multiple_of(cols.max(1)), "{} values in rows of {cols}", values.len());
    let unit = feedback.unit();
    let difference = Strips::new(feedback.natural().moment.size(), |i, j| {
        if i >= cols || j >= cols {
            return 0.0;
        }
        let (cross, moment) = (cross[i * cols + j], moment[i.min(j) * cols + i.max(j)]);
        ((f64::from(cross) - f64::from(moment)) / unit) as f32
    });
    let mut out = values.to_vec();
    out.par_chunks_mut(LANES * cols.max(1)).for_each(|rows| {
        vector::run(isa, Move { rows, cols, part, difference: &difference, ordered: feedback.natural() });
    });
    out
}

/// The work on at most 16 rows.
struct Move<'a> {
    rows: &'a mut [f32],
    cols: usize,
    part: f32,
    difference: &'a Strips,
    ordered: &'a Ordered,
}

impl VectorWork for Move<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let group = RowGroup::new(self.cols, STRIP, self.rows);
        let mut step = vec![ZEROS; group.originals.len()];
        for (strip, out) in step.chunks_exact_mut(STRIP).enumerate() {
            accumulate::<V>(out, &group.originals, self.difference.strip(strip));
        }
        divide::<V>(&mut step, self.ordered);
        for (lane, row) in self.rows.chunks_exact_mut(self.cols).enumerate() {
            for (value, step) in row.iter_mut().zip(&step) {
                *value = self.part.mul_add(step[lane], *value);
            }
        }
    }
}

/// `x` with `x U D U' = b`, in the place of `b`.
#[inline(always)]
fn divide<V: Vector>(b: &mut [Lanes], ordered: &Ordered) {
    let upper = &ordered.upper;
    // z with z U' = b, from the last column to the first.
    for strip in (0..b.len() / STRIP).rev() {
        let rows = upper.strip(strip);
        let (before, block) = b.split_at_mut(strip * STRIP);
        let block = &mut block[..STRIP];
        for j in (0..STRIP).rev() {
            block[j] = less_product::<V>(&block[j], &block[j + 1..], &rows[strip * STRIP + j][j + 1..]);
        }
        for (out, row) in before.iter_mut().zip(rows) {
            *out = less_product::<V>(out, block, row);
        }
    }
    // y = z D^-1, then x with x U = y, from the first to the last. `negative` holds -x.
    let mut negative = vec![ZEROS; b.len()];
    for strip in 0..b.len() / STRIP {
        let rows = upper.strip(strip);
        let start = strip * STRIP;
        let block = &mut b[start..start + STRIP];
        for (j, out) in block.iter_mut().enumerate() {
            let pivot = ordered.pivots[start + j];
            let inverse = if pivot == 0.0 { 0.0 } else { 1.0 / pivot };
            *out = V::from_lanes(out).mul(V::splat(inverse)).to_lanes();
        }
        accumulate::<V>(block, &negative[..start], rows);
        for j in 0..STRIP {
            let mut x = V::from_lanes(&block[j]);
            for i in 0..j {
                x = x.fma(V::from_lanes(&negative[start + i]), V::splat(rows[start + i][j]));
            }
            block[j] = x.to_lanes();
            negative[start + j] = V::splat(0.0).sub(x).to_lanes();
        }
    }
}

/// `start - sum factors[i] * row[i]`, i ascending.
#[inline(always)]
fn less_product<V: Vector>(start: &Lanes, factors: &[Lanes], row: &[f32]) -> Lanes {
    let mut sum = V::from_lanes(start);
    for (factor, row) in factors.iter().zip(row) {
        sum = sum.fma(V::from_lanes(factor), V::splat(-*row));
    }
    sum.to_lanes()
}
