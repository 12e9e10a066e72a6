//! What the inputs of a matrix say about the weight of its errors, made ready for quantizers.
//!
//! For inputs x with second moment `H = mean of x x'`, an error E of a weight matrix changes its outputs by
//! `tr(E H E')` in mean square. The quantizers make that small, not the error itself (OBQ, arXiv 2208.11580; GPTQ,
//! arXiv 2210.17323).

use std::sync::OnceLock;

use qsf_runtime::cpu::Isa;
use rayon::prelude::*;

use super::linear_algebra::{Factor, NotPositive, factor};
use super::strips::{STRIP, Strips};

/// Factor by which damping grows where it does not suffice.
const MORE_DAMPING: f64 = 10.0;

/// Least damping of a second attempt, as a part of the mean diagonal: above the rounding of a moment in f32.
const LEAST_DAMPING: f64 = 1e-4;

/// A matrix that is no second moment.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum MomentError {
    /// NaN or infinity.
    #[error("the second moment holds {value} in row {row}, column {col}")]
    NotFinite {
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        col: usize,
        /// The entry.
        value: f32,
    },
    /// A mean of squares below zero.
    #[error("the second moment holds {value} on its diagonal, in column {col}")]
    Negative {
        /// Row and column of the entry.
        col: usize,
        /// The entry.
        value: f32,
    },
    /// Larger off the diagonal than any means of products can be.
    #[error("the second moment is not positive definite, whatever is added to its diagonal")]
    NotPositive,
}

/// The second moment of a matrix's inputs, damped and factored.
#[derive(Debug)]
pub struct Feedback {
    cols: usize,
    unit: f64,
    natural: Ordered,
    steps: OnceLock<Ordered>,
}

/// The moment with its columns in one order, in units of the mean of its diagonal. Columns are padded to whole blocks of
/// 32; padding columns weigh nothing.
#[derive(Debug)]
pub(super) struct Ordered {
    /// The damped moment.
    pub moment: Strips,
    /// U of `H = U D U'`: row i says how the error of column i moves the targets of later columns.
    pub upper: Strips,
    /// D, what a squared distance from the target costs; 0 for padding columns.
    pub pivots: Vec<f32>,
}

impl Feedback {
    /// Takes the mean of x x' over inputs x, `n * n` values of which the upper triangle is read, and adds `damping` times
    /// the mean of its diagonal to the diagonal; more where that leaves it singular. Columns that no input ever used
    /// weigh that much alone.
    ///
    /// # Errors
    /// When `moment` is no second moment.
    ///
    /// # Panics
    /// When `moment` is not square.
    pub fn new(isa: Isa, moment: &[f32], damping: f32) -> Result<Feedback, MomentError> {
        let cols = moment.len().isqrt();
        assert_eq!(cols * cols, moment.len(), "a square matrix");
        for (row, values) in moment.chunks_exact(cols.max(1)).enumerate() {
            if let Some(col) = values.iter().position(|v| !v.is_finite()) {
                return Err(MomentError::NotFinite { row, col, value: values[col] });
            }
            if values[row] < 0.0 {
                return Err(MomentError::Negative { col: row, value: values[row] });
            }
        }
        let trace: f64 = (0..cols).map(|i| f64::from(moment[i * cols + i])).sum();
        // Inputs that are all zero say nothing: every column weighs the same.
        let (unit, extra) = if trace > 0.0 { (trace / cols as f64, 0.0) } else { (1.0, 1.0) };
        let entry = |row: usize, col: usize| {
            let value = f64::from(moment[row.min(col) * cols + row.max(col)]) / unit;
            if row == col { value + extra } else { value }
        };
        let natural = Ordered::new(isa, cols, f64::from(damping.max(0.0)), |column| column, &entry)
            .map_err(|NotPositive| MomentError::NotPositive)?;
        Ok(Feedback { cols, unit, natural, steps: OnceLock::new() })
    }

    /// Columns of the matrices that this is about.
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// The mean of the moment's diagonal, which losses are in units of.
    pub const fn unit(&self) -> f64 {
        self.unit
    }

    /// Columns as they are stored.
    pub(super) const fn natural(&self) -> &Ordered {
        &self.natural
    }

    /// Columns in the order of a trellis's steps.
    pub(super) fn steps(&self, isa: Isa) -> &Ordered {
        self.steps.get_or_init(|| {
            let entry = |row: usize, col: usize| f64::from(self.natural.moment.at(row, col));
            // Damped already, and positive definite in any order; should rounding say otherwise, damping helps long
            // before it exceeds what is allowed.
            Ordered::new(isa, self.cols, 0.0, column_of_step, &entry).unwrap_or_else(|NotPositive| {
                unreachable!("a positive definite matrix, its columns reordered")
            })
        })
    }
}

impl Ordered {
    fn new(
        isa: Isa,
        cols: usize,
        damping: f64,
        column_at: impl Fn(usize) -> usize + Sync,
        entry: &(impl Fn(usize, usize) -> f64 + Sync),
    ) -> Result<Ordered, NotPositive> {
        let padded = cols.next_multiple_of(STRIP);
        let mut damping = damping;
        // Once it exceeds the sum of a row of any second moment, whose entries are at most `cols` of our units.
        let enough = MORE_DAMPING * (cols as f64) * (cols as f64);
        loop {
            let damped = |row: usize, col: usize| {
                let (from, to) = (column_at(row), column_at(col));
                let value = if from < cols && to < cols { entry(from, to) } else { 0.0 };
                if row == col { value + if from < cols { damping } else { 1.0 } } else { value }
            };
            match factor(isa, padded, damped) {
                Ok(factor) => return Ok(Ordered::from_factor(cols, padded, &column_at, &damped, factor)),
                Err(NotPositive) if damping > enough => return Err(NotPositive),
                Err(NotPositive) => damping = (damping * MORE_DAMPING).max(LEAST_DAMPING),
            }
        }
    }

    fn from_factor(
        cols: usize,
        padded: usize,
        column_at: &(impl Fn(usize) -> usize + Sync),
        damped: &(impl Fn(usize, usize) -> f64 + Sync),
        factor: Factor,
    ) -> Ordered {
        let used = |i: usize| column_at(i) < cols;
        let upper =
            Strips::new(
                padded,
                |i, j| {
                    if i < j && used(i) && used(j) { factor.upper(i, j) as f32 } else { 0.0 }
                },
            );
        let pivot = |j: usize| if used(j) { factor.pivot(j) as f32 } else { 0.0 };
        let pivots = (0..padded).into_par_iter().map(pivot).collect();
        // As large as each of the others: it goes before the next one comes.
        drop(factor);
        let moment =
            Strips::new(
                padded,
                |i, j| {
                    if used(i) && used(j) { damped(i.min(j), i.max(j)) as f32 } else { 0.0 }
                },
            );
        Ordered { moment, upper, pivots }
    }
}

/// The column that step `step` of a row codes (SPEC.md section 6): the four bytes of a lane hold neighbouring columns.
pub(super) const fn column_of_step(step: usize) -> usize {
    let t = step % STRIP;
    step - t + 4 * (t % 8) + t / 8
}
