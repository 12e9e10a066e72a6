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

/// From the weights of matrices that share an input to those that are aimed at.
#[derive(Debug)]
pub struct Correction {
    /// C - H, in the unit of the feedback.
    difference: Strips,
    part: f32,
}

impl Correction {
    /// `cross` (C) and `moment` (H before damping) are `n * n` and row by row, of the moment the upper triangle is read;
    /// `part` says how far to go from W, 0, to W', 1.
    ///
    /// # Panics
    /// When lengths do not fit the columns of `feedback`, which was made of `moment`.
    pub fn new(feedback: &Feedback, moment: &[f32], cross: &[f32], part: f32) -> Correction {
        let (cols, unit) = (feedback.cols(), feedback.unit());
        assert!(cross.len() == cols * cols && moment.len() == cols * cols, "moments of {cols} columns");
        let difference = Strips::new(feedback.natural().moment.size(), |i, j| {
            if i >= cols || j >= cols {
                return 0.0;
            }
            let (cross, moment) = (cross[i * cols + j], moment[i.min(j) * cols + i.max(j)]);
            ((f64::from(cross) - f64::from(moment)) / unit) as f32
        });
        Correction { difference, part }
    }

    /// `W + part * (W C H^-1 - W)` for whole rows of W, with the damped H of `feedback` and the same damping added to C:
    /// where C and H are the same, W stays as it is. A row does not depend on the others.
    ///
    /// # Panics
    /// When `values` are not rows of as many columns as `feedback` has, or that is not the one of [`Correction::new`].
    pub fn targets(&self, isa: Isa, feedback: &Feedback, values: &[f32]) -> Vec<f32> {
        let cols = feedback.cols();
        assert!(values.len().is_multiple_of(cols.max(1)), "{} values in rows of {cols}", values.len());
        let mut out = values.to_vec();
        out.par_chunks_mut(LANES * cols.max(1)).for_each(|rows| {
            let Correction { difference, part } = self;
            vector::run(isa, Move { rows, cols, part: *part, difference, ordered: feedback.natural() });
        });
        out
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a fixed pseudo-random sequence.
    fn random(seed: u64, count: usize) -> Vec<f64> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
            })
            .collect()
    }

    fn mean_of_products(a: &[f64], b: &[f64], n: usize) -> Vec<f32> {
        let tokens = a.len() / n;
        let entry = |i: usize, j: usize| (0..tokens).map(|t| a[t * n + i] * b[t * n + j]).sum::<f64>();
        (0..n * n).map(|at| (entry(at / n, at % n) / tokens as f64) as f32).collect()
    }

    #[test]
    fn full_corrections_give_the_weights_that_make_of_the_new_inputs_what_the_old_ones_made() {
        // q = f A with A near one: W f = W A'^-1 q, so that W A'^-1 is the answer, up to damping.
        for n in [33usize, 64, 100] {
            let tokens = 6 * n;
            let f = random(1, tokens * n);
            let noise = random(2, n * n);
            let mut q = vec![0.0; tokens * n];
            for t in 0..tokens {
                for j in 0..n {
                    let mixed: f64 = (0..n).map(|i| f[t * n + i] * noise[i * n + j]).sum();
                    q[t * n + j] = f[t * n + j] + 0.3 * mixed / (n as f64).sqrt();
                }
            }
            let (moment, cross) = (mean_of_products(&q, &q, n), mean_of_products(&f, &q, n));
            let feedback = Feedback::new(Isa::best(), &moment, 1e-6).unwrap();
            let weights: Vec<f32> = random(3, 19 * n).iter().map(|v| *v as f32).collect();
            let outputs = |w: &[f32], x: &[f64]| -> Vec<f64> {
                let dot = |row: &[f32], x: &[f64]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum();
                x.chunks_exact(n).flat_map(|x| w.chunks_exact(n).map(move |row| dot(row, x))).collect()
            };
            let distance = |w: &[f32]| -> f64 {
                let pairs = outputs(w, &q).into_iter().zip(outputs(&weights, &f));
                pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
            };
            let whole = Correction::new(&feedback, &moment, &cross, 1.0);
            let half = Correction::new(&feedback, &moment, &cross, 0.5);
            let before = distance(&weights);
            let after = distance(&whole.targets(Isa::best(), &feedback, &weights));
            let between = distance(&half.targets(Isa::best(), &feedback, &weights));
            assert!(after < 1e-3 * before, "{n}: {after} of {before}");
            assert!((between / before - 0.5).abs() < 0.01, "{n}: {between} of {before}");
            for isa in Isa::available() {
                let feedback = Feedback::new(isa, &moment, 1e-6).unwrap();
                let other =
                    Correction::new(&feedback, &moment, &cross, 0.5).targets(isa, &feedback, &weights);
                let expected = half.targets(Isa::best(), &feedback, &weights);
                assert!(other.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{isa:?}");
            }
        }
    }

    #[test]
    fn nothing_changes_where_the_inputs_are_the_same() {
        let n = 40;
        let f = random(5, 30 * n);
        let moment = mean_of_products(&f, &f, n);
        let feedback = Feedback::new(Isa::best(), &moment, 0.01).unwrap();
        let weights: Vec<f32> = random(6, 3 * n).iter().map(|v| *v as f32).collect();
        let targets =
            Correction::new(&feedback, &moment, &moment, 1.0).targets(Isa::best(), &feedback, &weights);
        for (target, weight) in targets.iter().zip(&weights) {
            assert!((target - weight).abs() < 1e-4, "{target} for {weight}");
        }
    }
}
