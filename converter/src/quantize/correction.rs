//! Targets that make up for what came before: with inputs f at full precision and q in the model as it is quantized so far,
//! the weights that make of q what the original weights W make of f are `W E[f q'] E[q q']^-1`. Quantizing towards a point
//! between W and these is GPTAQ's asymmetric calibration (arXiv 2504.02692).

use qsf_runtime::cpu::Isa;
use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::{self, Vector, VectorWork};
use rayon::prelude::*;

use super::coder::accumulate_row;
use super::feedback::{Feedback, Ordered};
use super::strips::{STRIP, Strips, accumulate};
use super::vectors::{ZEROS, inverse};

/// From the weights of matrices that share an input to those that are aimed at.
#[derive(Debug)]
pub struct Correction {
    /// `E[f q']`, with what the moment was damped by on its diagonal: where f and q are equal, nothing changes.
    cross: Strips,
    /// U' of the factor `U D U'` of the moment of q.
    lower: Strips,
    /// How far to go, 0 to 1.
    share: f32,
}

impl Correction {
    /// `cross` is the mean of f q', n x n; `feedback` was made of `moment`, the mean of q q', n x n.
    ///
    /// # Panics
    /// When they are of different sizes.
    pub fn new(feedback: &Feedback, moment: &[f32], cross: &[f32], share: f32) -> Correction {
        let (cols, unit) = (feedback.cols(), feedback.unit());
        assert!(moment.len() == cols * cols && cross.len() == cols * cols, "moments of {cols} columns");
        let ordered = feedback.natural();
        let size = ordered.upper.size();
        let entry = |row: usize, col: usize| {
            if row.max(col) >= cols {
                return 0.0;
            }
            let at = row * cols + col;
            let damped = if row == col {
                f64::from(ordered.moment.at(row, row)) - f64::from(moment[at]) / unit
            } else {
                0.0
            };
            (f64::from(cross[at]) / unit + damped) as f32
        };
        let lower = |row: usize, col: usize| if col < row { ordered.upper.at(col, row) } else { 0.0 };
        Correction { cross: Strips::new(size, entry), lower: Strips::new(size, lower), share }
    }

    /// What to aim at in the place of rows `values`; `feedback` is the one that this was made with. A row does not depend
    /// on the others.
    pub fn targets(&self, isa: Isa, feedback: &Feedback, values: &[f32]) -> Vec<f32> {
        let cols = feedback.cols();
        let mut out = vec![0.0; values.len()];
        let ordered = feedback.natural();
        out.par_chunks_mut(LANES * cols).zip(values.par_chunks(LANES * cols)).for_each(|(out, values)| {
            vector::run(isa, OneGroup { correction: self, ordered, cols, values, out });
        });
        out
    }
}

/// Sixteen rows.
struct OneGroup<'a> {
    correction: &'a Correction,
    ordered: &'a Ordered,
    cols: usize,
    values: &'a [f32],
    out: &'a mut [f32],
}

impl VectorWork for OneGroup<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let OneGroup { correction, ordered, cols, values, out } = self;
        let size = ordered.upper.size();
        let mut rows = vec![ZEROS; size];
        for (lane, row) in values.chunks_exact(cols).enumerate() {
            for (column, value) in rows.iter_mut().zip(row) {
                column[lane] = *value;
            }
        }
        let mut aim = vec![ZEROS; size];
        for (strip, aim) in aim.chunks_exact_mut(STRIP).enumerate() {
            accumulate::<V>(aim, &rows, correction.cross.strip(strip));
        }
        // y U D U' = aim, from the right to the left and back.
        solve_lower::<V>(&mut aim, &correction.lower);
        for (aim, pivot) in aim.iter_mut().zip(&ordered.pivots) {
            let pivot: V = inverse(V::splat(*pivot));
            *aim = V::from_lanes(aim).mul(pivot).to_lanes();
        }
        solve_upper::<V>(&mut aim, &ordered.upper);
        let share = V::splat(correction.share);
        for (lane, out) in out.chunks_exact_mut(cols).enumerate() {
            for ((out, aim), row) in out.iter_mut().zip(&aim).zip(&rows) {
                let moved = V::from_lanes(row).fma(share, V::from_lanes(aim).sub(V::from_lanes(row)));
                *out = moved.to_lanes()[lane];
            }
        }
    }
}

/// x L = b for unit lower triangular L, x in the place of b: columns from the last to the first.
#[inline(always)]
fn solve_lower<V: Vector>(x: &mut [Lanes], lower: &Strips) {
    for block in (0..x.len() / STRIP).rev() {
        let start = block * STRIP;
        let (before, after) = x.split_at_mut(start + STRIP);
        let own = &mut before[start..];
        negated(own, |own| {
            // What the later columns take from these; their rows of the strip follow those of this block.
            accumulate::<V>(own, after, &lower.strip(block)[start + STRIP..]);
        });
        for j in (1..STRIP).rev() {
            let (earlier, rest) = own.split_at_mut(j);
            let row = &lower.strip(block)[start + j][..j];
            accumulate_row(earlier, V::splat(0.0).sub(V::from_lanes(&rest[0])), row);
        }
    }
}

/// x U = b for unit upper triangular U, x in the place of b: columns from the first to the last.
#[inline(always)]
fn solve_upper<V: Vector>(x: &mut [Lanes], upper: &Strips) {
    for block in 0..x.len() / STRIP {
        let start = block * STRIP;
        let (before, own) = x.split_at_mut(start);
        let own = &mut own[..STRIP];
        negated(own, |own| accumulate::<V>(own, before, &upper.strip(block)[..start]));
        for j in 0..STRIP {
            let (this, later) = own[j..].split_at_mut(1);
            let row = &upper.strip(block)[start + j][j + 1..];
            accumulate_row(later, V::splat(0.0).sub(V::from_lanes(&this[0])), row);
        }
    }
}

/// `values - what add adds to zero`.
#[inline(always)]
fn negated(values: &mut [Lanes], add: impl FnOnce(&mut [Lanes])) {
    flip(values);
    add(values);
    flip(values);
}

#[inline(always)]
fn flip(values: &mut [Lanes]) {
    for value in values.as_flattened_mut() {
        *value = -*value;
    }
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
