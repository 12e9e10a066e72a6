//! What the gradients at the outputs of a matrix say about the weight of its errors, made ready for quantizers.
//!
//! With G the mean of `g g'` over gradients g of the predictions' divergence at the outputs, and H that of the inputs, an error
//! E of the matrix changes the predictions by about `tr(G E H E')` (YAQA, arXiv 2505.22988). With `G = U D U'` that is a sum
//! over rows j of `D_j e H e'` with `e = e_j + sum_{i<j} U_ij e_i`: rows make up for errors of rows before them as columns do.

use qsf_runtime::cpu::Isa;
use rayon::prelude::*;

use super::linear_algebra::{NotPositive, factor};

/// Factor by which damping grows where it does not suffice.
const MORE_DAMPING: f64 = 10.0;

/// The factor of the gradients' second moment.
#[derive(Debug)]
pub struct RowFeedback {
    rows: usize,
    /// `U_ij` at `j * rows + i`, for i < j.
    lower: Vec<f32>,
}

impl RowFeedback {
    /// Takes the mean of `g g'`, of which the upper triangle is read, and adds `damping` times the mean of its diagonal to the
    /// diagonal. Nothing where no gradient ever came.
    ///
    /// # Panics
    /// When `moment` is not square.
    pub fn new(isa: Isa, moment: &[f32], damping: f64) -> Option<RowFeedback> {
        let rows = moment.len().isqrt();
        assert_eq!(rows * rows, moment.len(), "a square matrix");
        let mean = (0..rows).map(|i| f64::from(moment[i * rows + i])).sum::<f64>() / rows.max(1) as f64;
        if !mean.is_finite() || mean <= 0.0 {
            return None;
        }
        let mut damping = damping;
        let factor = loop {
            let entry = |i: usize, j: usize| {
                f64::from(moment[i.min(j) * rows + i.max(j)]) / mean + if i == j { damping } else { 0.0 }
            };
            match factor(isa, rows, entry) {
                Ok(factor) => break factor,
                Err(NotPositive) if damping > 1e3 => return None,
                Err(NotPositive) => damping *= MORE_DAMPING,
            }
        };
        let mut lower = vec![0.0; rows * rows];
        lower.par_chunks_mut(rows).enumerate().for_each(|(j, out)| {
            (0..j).for_each(|i| out[i] = factor.upper(i, j) as f32);
        });
        Some(RowFeedback { rows, lower })
    }

    /// Rows of the matrix.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Moves the targets of rows from `first` on by the errors of all rows before `first`, `cols` wide.
    pub fn add(&self, first: usize, errors: &[f32], targets: &mut [f32], cols: usize) {
        targets.par_chunks_mut(cols).enumerate().for_each(|(at, target)| {
            let factors = &self.lower[(first + at) * self.rows..][..first];
            for (factor, error) in factors.iter().zip(errors.chunks_exact(cols)) {
                for (target, error) in target.iter_mut().zip(error) {
                    *target += factor * error;
                }
            }
        });
    }
}
