//! What the gradients at the outputs of a matrix say about the weight of its errors, made ready for quantizers.
//!
//! With H the second moment of inputs, and G that of gradients of the loss at the outputs, an error E of a weight matrix changes
//! the predictions by about `tr(G E H E')` (YAQA, arXiv 2505.22988). With `G = U D U'` that is a sum over rows j of
//! `D_j x H x'` with `x = e_j + sum_{i<j} U_ij e_i`: rows make up for errors of the rows before them, as columns do.

use qsf_runtime::cpu::{Isa, Vectorized};
use rayon::prelude::*;

use super::linear_algebra::{NotPositive, factor};

/// Factor by which damping grows where it does not suffice.
const MORE_DAMPING: f64 = 10.0;

/// Least damping of a second attempt, as of moments of inputs.
const LEAST_DAMPING: f64 = 1e-4;

/// Damping of no moment is larger, in units of the mean of its diagonal: far above the sum of any row of correlations.
const MOST_DAMPING: f64 = 1e12;

/// Columns whose sums are in the first-level cache at once, with those of a run of rows.
const COLUMNS: usize = 128;

/// The factor of the second moment of gradients.
#[derive(Debug)]
pub struct RowFeedback {
    rows: usize,
    /// `U_ij` at `i * rows + j`, for i < j.
    upper: Vec<f32>,
}

impl RowFeedback {
    /// Takes the entries of the moment in units of the mean of its diagonal, `entry(i, j)` for i <= j, and adds `damping` to the
    /// diagonal; more where that leaves it singular. Nothing for what is no second moment.
    pub fn new(
        isa: Isa,
        rows: usize,
        damping: f64,
        entry: impl Fn(usize, usize) -> f64 + Sync,
    ) -> Option<RowFeedback> {
        let mut damping = damping;
        let factor = loop {
            let damped = |i: usize, j: usize| entry(i, j) + if i == j { damping } else { 0.0 };
            match factor(isa, rows, damped) {
                Ok(factor) => break factor,
                Err(NotPositive) if damping > MOST_DAMPING => return None,
                Err(NotPositive) => damping = (damping * MORE_DAMPING).max(LEAST_DAMPING),
            }
        };
        let mut upper = vec![0.0; rows * rows];
        upper.par_chunks_mut(rows.max(1)).enumerate().for_each(|(i, out)| {
            (i + 1..rows).for_each(|j| out[j] = factor.upper(i, j) as f32);
        });
        Some(RowFeedback { rows, upper })
    }

    /// Rows of the matrices that this is about.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// What to add to the targets of `count` rows from `first` on, which are rounded without regard to each other. `errors` are those
    /// of all rows before, targets less values, `cols` wide.
    ///
    /// # Panics
    /// When there are no such rows, or `errors` are not those before them.
    pub fn shifts(&self, isa: Isa, first: usize, count: usize, errors: &[f32], cols: usize) -> Vec<f32> {
        assert!(first + count <= self.rows && errors.len() == first * cols, "errors of {first} rows");
        let parts: Vec<Vec<f32>> = (0..cols)
            .step_by(COLUMNS)
            .collect::<Vec<usize>>()
            .into_par_iter()
            .map(|column| {
                let width = COLUMNS.min(cols - column);
                isa.vectorize(Shifts { of: self, first, count, errors, cols, column, width })
            })
            .collect();
        let mut shifts = vec![0.0; count * cols];
        for (part, column) in parts.iter().zip((0..cols).step_by(COLUMNS)) {
            let width = COLUMNS.min(cols - column);
            for (from, to) in part.chunks_exact(width).zip(shifts.chunks_exact_mut(cols)) {
                to[column..column + width].copy_from_slice(from);
            }
        }
        shifts
    }
}

/// Some columns of the shifts of a run of rows.
struct Shifts<'a> {
    of: &'a RowFeedback,
    first: usize,
    count: usize,
    errors: &'a [f32],
    cols: usize,
    column: usize,
    width: usize,
}

impl Vectorized for Shifts<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let Shifts { of, first, count, errors, cols, column, width } = self;
        let mut sums = vec![0.0; count * width];
        for i in 0..first {
            let error = &errors[i * cols + column..][..width];
            let factors = &of.upper[i * of.rows + first..][..count];
            for j in 0..count {
                add(&mut sums[j * width..][..width], factors[j], error);
            }
        }
        // What a row is moved by is an error, too, for those behind it.
        for j in 1..count {
            let (before, rest) = sums.split_at_mut(j * width);
            for i in 0..j {
                let factor = of.upper[(first + i) * of.rows + first + j];
                add(&mut rest[..width], -factor, &before[i * width..][..width]);
            }
        }
        sums
    }
}

/// Not fused, so that processors that cannot fuse are as fast.
#[inline(always)]
fn add(sums: &mut [f32], factor: f32, values: &[f32]) {
    for i in 0..sums.len().min(values.len()) {
        sums[i] += factor * values[i];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in -1..1 that look like chance.
    fn numbers(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 30) - 1.0
        }
    }

    /// A second moment of rows that go together.
    fn moment(rows: usize) -> Vec<f64> {
        let mut next = numbers(1);
        let tokens: Vec<Vec<f64>> = (0..4 * rows)
            .map(|_| {
                let common = next();
                (0..rows).map(|_| common + next()).collect()
            })
            .collect();
        let entry = |at: usize| tokens.iter().map(|g| g[at / rows] * g[at % rows]).sum::<f64>();
        let values: Vec<f64> = (0..rows * rows).map(entry).collect();
        let mean = (0..rows).map(|i| values[i * rows + i]).sum::<f64>() / rows as f64;
        values.iter().map(|value| value / mean).collect()
    }

    /// `tr(G E E')`.
    fn loss(moment: &[f64], rows: usize, errors: &[f32], cols: usize) -> f64 {
        let product = |i: usize, j: usize| {
            let (a, b) = (&errors[i * cols..][..cols], &errors[j * cols..][..cols]);
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        };
        (0..rows * rows).map(|at| moment[at] * product(at / rows, at % rows)).sum()
    }

    #[test]
    fn rows_that_make_up_for_rows_before_them_cost_the_predictions_less() {
        let (rows, cols) = (48, 150);
        let moment = moment(rows);
        let mut next = numbers(2);
        let values: Vec<f32> = (0..rows * cols).map(|_| 8.0 * next() as f32).collect();
        let round = |run: usize| {
            let feedback = RowFeedback::new(Isa::best(), rows, 0.0, |i, j| moment[i * rows + j]).unwrap();
            let mut errors: Vec<f32> = Vec::new();
            for first in (0..rows).step_by(run) {
                let shifts = feedback.shifts(Isa::best(), first, run, &errors, cols);
                let values = &values[first * cols..][..run * cols];
                errors
                    .extend(values.iter().zip(&shifts).map(|(value, shift)| value - (value + shift).round()));
            }
            loss(&moment, rows, &errors, cols)
        };
        let each: Vec<f32> = values.iter().map(|value| value - value.round()).collect();
        let alone = loss(&moment, rows, &each, cols);
        let (one, sixteen) = (round(1), round(16));
        assert!(one < 0.7 * alone, "{one} of {alone}");
        assert!(one < sixteen && sixteen < 0.85 * alone, "{one}, {sixteen} of {alone}");
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let (rows, cols) = (40, 301);
        let moment = moment(rows);
        let errors: Vec<f32> = (0..24 * cols).map(|i| ((i * 31 + 7) % 1009) as f32 / 1000.0).collect();
        let shifts = |isa: Isa| {
            let feedback = RowFeedback::new(isa, rows, 0.1, |i, j| moment[i * rows + j]).unwrap();
            feedback.shifts(isa, 24, 16, &errors, cols)
        };
        let expected = shifts(Isa::SCALAR);
        assert!(expected.iter().any(|shift| *shift != 0.0));
        for isa in Isa::available() {
            assert!(shifts(isa).iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{isa:?}");
        }
    }

    #[test]
    fn what_is_no_moment_is_no_feedback() {
        assert!(RowFeedback::new(Isa::best(), 3, 0.1, |_, _| f64::NAN).is_none());
        let all_alike = RowFeedback::new(Isa::best(), 3, 0.0, |_, _| 1.0);
        assert!(all_alike.is_none() || all_alike.is_some_and(|f| f.rows() == 3));
    }
}
