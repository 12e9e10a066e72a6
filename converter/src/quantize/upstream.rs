//! Weights that make up for what quantized layers before have done to their inputs (GPTAQ, arXiv 2504.02692).
//!
//! A matrix W is fed x after quantization where it was fed y before. The matrix closest to the old outputs on the new
//! inputs, `min |W' x - W y|^2`, is `W' = W C H^-1` with `C = mean of y x'` and `H = mean of x x'`.
//!
//! Where the outputs are added to a residual stream that lacks d by then, they can make up for that, too (LoaQ, arXiv
//! 2509.06297): `min |W' x - W y - d|^2` is `W' = (W C + D) H^-1` with `D = mean of d x'`.

use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};
use rayon::prelude::*;

use super::feedback::{Feedback, Ordered};
use super::group::lanes_of_rows;
use super::strips::{STRIP, Strips, accumulate_groups, subtract_rows};
use super::vectors::ZEROS;

/// From the weights of matrices that share an input to those that are aimed at.
#[derive(Debug)]
pub struct Correction {
    /// C - H, in the unit of the feedback.
    difference: Strips,
    /// D, row by row, where the outputs go to a residual stream.
    residual: Option<Vec<f32>>,
    /// One over the unit.
    inverse: f32,
    part: f32,
}

impl Correction {
    /// `cross` (C) and `moment` (H before damping) are `n * n` and row by row, of the moment the upper triangle is read; `residual`
    /// (D) has a row of n for each of the matrix; `part` says how far to go from W, 0, to W', 1.
    ///
    /// # Panics
    /// When lengths do not fit the columns of `feedback`, which was made of `moment`.
    pub fn new(
        feedback: &Feedback,
        moment: &[f32],
        cross: &[f32],
        residual: Option<Vec<f32>>,
        part: f32,
    ) -> Correction {
        let (cols, unit) = (feedback.cols(), feedback.unit());
        assert!(cross.len() == cols * cols && moment.len() == cols * cols, "moments of {cols} columns");
        let difference = Strips::new(feedback.natural().moment.size(), |i, j| {
            if i >= cols || j >= cols {
                return 0.0;
            }
            let (cross, moment) = (cross[i * cols + j], moment[i.min(j) * cols + i.max(j)]);
            ((f64::from(cross) - f64::from(moment)) / unit) as f32
        });
        Correction { difference, residual, inverse: (1.0 / unit) as f32, part }
    }

    /// `W + part * ((W C + D) H^-1 - W)` for whole rows of W from row `first` on, with the damped H of `feedback` and the same damping added to C:
    /// where C and H are the same, W stays as it is. A row does not depend on the others.
    ///
    /// # Panics
    /// When `values` are not rows of as many columns as `feedback` has, that is not the one of [`Correction::new`], or D has not so
    /// many rows.
    pub fn targets(&self, isa: Isa, feedback: &Feedback, first: usize, values: &[f32]) -> Vec<f32> {
        let cols = feedback.cols();
        assert!(values.len().is_multiple_of(cols.max(1)), "{} values in rows of {cols}", values.len());
        let mut out = values.to_vec();
        // Many rows read a strip of the moments once, but every thread should have some.
        let groups = values.len() / cols.max(1) / (LANES * rayon::current_num_threads());
        let rows = LANES * groups.clamp(1, MOST_GROUPS);
        out.par_chunks_mut(rows * cols.max(1)).enumerate().for_each(|(i, values)| {
            let start = (first + i * rows) * cols;
            let residual = self.residual.as_ref().map_or(&[][..], |all| &all[start..start + values.len()]);
            let ordered = feedback.natural();
            vector::run(isa, Move { rows: values, cols, correction: self, residual, ordered });
        });
        out
    }
}

/// Groups of 16 rows that a thread works on together.
const MOST_GROUPS: usize = 4;

/// The work on some rows.
struct Move<'a> {
    rows: &'a mut [f32],
    cols: usize,
    correction: &'a Correction,
    /// Rows of D, or nothing.
    residual: &'a [f32],
    ordered: &'a Ordered,
}

impl VectorWork for Move<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Correction { difference, inverse, part, .. } = self.correction;
        let group_values = LANES * self.cols;
        let originals: Vec<_> =
            self.rows.chunks(group_values).map(|rows| lanes_of_rows(self.cols, STRIP, rows)).collect();
        let mut steps: Vec<_> = originals.iter().map(|group| vec![ZEROS; group.len()]).collect();
        for (steps, rows) in steps.iter_mut().zip(self.residual.chunks(group_values)) {
            *steps = lanes_of_rows(self.cols, STRIP, rows);
            for step in steps {
                *step = V::from_lanes(step).mul(V::splat(*inverse)).to_lanes();
            }
        }
        for strip in 0..difference.size() / STRIP {
            accumulate_groups::<V>(&mut steps, strip * STRIP, &originals, difference.strip(strip));
        }
        divide::<V>(&mut steps, self.ordered);
        for (rows, steps) in self.rows.chunks_mut(group_values).zip(&steps) {
            for (lane, row) in rows.chunks_exact_mut(self.cols).enumerate() {
                for (value, step) in row.iter_mut().zip(steps) {
                    *value = part.mul_add(step[lane], *value);
                }
            }
        }
    }
}

/// `x` with `x U D U' = b` for each group of rows, in the place of `b`.
#[inline(always)]
fn divide<V: Vector>(groups: &mut [Vec<Lanes>], ordered: &Ordered) {
    let upper = &ordered.upper;
    let strips = upper.size() / STRIP;
    // z with z U' = b, from the last column to the first.
    for strip in (0..strips).rev() {
        let (rows, at) = (upper.strip(strip), strip * STRIP);
        for b in &mut *groups {
            let block = &mut b[at..at + STRIP];
            for j in (0..STRIP).rev() {
                block[j] = less_product::<V>(&block[j], &block[j + 1..], &rows[at + j][j + 1..]);
            }
        }
        subtract_rows::<V>(groups, at, &rows[..at]);
    }
    // y = z D^-1, then x with x U = y, from the first to the last. `negative` holds -x.
    let mut negative: Vec<_> = groups.iter().map(|b| vec![ZEROS; b.len()]).collect();
    for strip in 0..strips {
        let (rows, at) = (upper.strip(strip), strip * STRIP);
        for b in &mut *groups {
            for (out, pivot) in b[at..at + STRIP].iter_mut().zip(&ordered.pivots[at..]) {
                let inverse = if *pivot == 0.0 { 0.0 } else { 1.0 / pivot };
                *out = V::from_lanes(out).mul(V::splat(inverse)).to_lanes();
            }
        }
        accumulate_groups::<V>(groups, at, &negative, &rows[..at]);
        for (b, negative) in groups.iter_mut().zip(&mut negative) {
            for j in 0..STRIP {
                let mut x = V::from_lanes(&b[at + j]);
                for i in 0..j {
                    x = x.fma(V::from_lanes(&negative[at + i]), V::splat(rows[at + i][j]));
                }
                b[at + j] = x.to_lanes();
                negative[at + j] = V::splat(0.0).sub(x).to_lanes();
            }
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
            let whole = Correction::new(&feedback, &moment, &cross, None, 1.0);
            let half = Correction::new(&feedback, &moment, &cross, None, 0.5);
            let before = distance(&weights);
            let after = distance(&whole.targets(Isa::best(), &feedback, 0, &weights));
            let between = distance(&half.targets(Isa::best(), &feedback, 0, &weights));
            assert!(after < 1e-3 * before, "{n}: {after} of {before}");
            assert!((between / before - 0.5).abs() < 0.01, "{n}: {between} of {before}");
            for isa in Isa::available() {
                let feedback = Feedback::new(isa, &moment, 1e-6).unwrap();
                let other = Correction::new(&feedback, &moment, &cross, None, 0.5)
                    .targets(isa, &feedback, 0, &weights);
                let expected = half.targets(Isa::best(), &feedback, 0, &weights);
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
        let targets = Correction::new(&feedback, &moment, &moment, None, 1.0).targets(
            Isa::best(),
            &feedback,
            0,
            &weights,
        );
        for (target, weight) in targets.iter().zip(&weights) {
            assert!((target - weight).abs() < 1e-4, "{target} for {weight}");
        }
    }

    #[test]
    fn outputs_make_up_for_what_the_stream_that_they_are_added_to_lacks() {
        // d = B q: what is lacking is a product of the inputs themselves, so that W + B gives all of it.
        for (n, rows) in [(33usize, 40), (64, 16)] {
            let q = random(7, 6 * n * n);
            let lacking: Vec<f32> = random(8, rows * n).iter().map(|v| *v as f32).collect();
            let moment = mean_of_products(&q, &q, n);
            let cross: Vec<f64> = (0..rows * n)
                .map(|at| {
                    let dot =
                        |i: usize| f64::from(lacking[at / n * n + i]) * f64::from(moment[i * n + at % n]);
                    (0..n).map(dot).sum()
                })
                .collect();
            let cross: Vec<f32> = cross.iter().map(|v| *v as f32).collect();
            let feedback = Feedback::new(Isa::best(), &moment, 1e-6).unwrap();
            let weights: Vec<f32> = random(9, rows * n).iter().map(|v| *v as f32).collect();
            let correction = Correction::new(&feedback, &moment, &moment, Some(cross), 0.5);
            let all = correction.targets(Isa::best(), &feedback, 0, &weights);
            for ((target, weight), lacking) in all.iter().zip(&weights).zip(&lacking) {
                assert!((target - weight - 0.5 * lacking).abs() < 1e-3, "{target}: {weight} and {lacking}");
            }
            // Rows are those that they are, wherever a run of them begins.
            let later = correction.targets(Isa::best(), &feedback, 5, &weights[5 * n..]);
            assert!(later == all[5 * n..], "{n}");
            for isa in Isa::available() {
                assert!(correction.targets(isa, &feedback, 0, &weights) == all, "{isa:?}");
            }
        }
    }
}
