//! What the rows of a matrix are fitted to.

use std::sync::Arc;

use qsf_runtime::cpu::lanes::dot;
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::linear::{Input, Products};
use qsf_runtime::source::Tensor;

use crate::quantize::{Correction, Feedback, RowFeedback};

/// What the rows of one matrix are fitted to. Nothing: every value counts alike.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fit {
    /// Weights of the columns in the error, where there is no feedback for a type.
    pub importance: Option<Arc<Vec<f32>>>,
    /// Moments of the inputs.
    pub feedback: Option<Arc<Feedback>>,
    /// To weights that make up for what the quantized layers before have changed.
    pub correction: Option<Arc<Correction>>,
    /// The mean of x x' over inputs x.
    pub moment: Option<Tensor>,
    /// How much errors of an expert's outputs count beside those of other experts: squares of gradients there, summed over its tokens,
    /// or the number of these. 0 for what is no expert.
    pub share: f64,
    /// Gradients at what the matrix gives.
    pub outputs: Option<Arc<RowFeedback>>,
}

/// Fits of the rows of a matrix.
#[derive(Clone, Copy)]
pub(crate) enum RowFits<'a> {
    /// One for all rows, or for each of as many equal shares of them: experts.
    Shares(&'a [Fit]),
    /// One for each group of rows, and the group of each row.
    Groups { fits: &'a [Fit], group_of: &'a [u16] },
}

impl<'a> From<&'a [Fit]> for RowFits<'a> {
    fn from(fits: &'a [Fit]) -> RowFits<'a> {
        RowFits::Shares(fits)
    }
}

impl Fit {
    /// Puts the row of the moment for column `col` into `out`; `false` where there is none.
    pub fn moment_row(&self, col: usize, out: &mut [f32]) -> bool {
        let Some(moment) = &self.moment else { return false };
        moment.decode_row(Isa::SCALAR, col, out);
        true
    }

    /// What the error e of each of some rows does to its output: `e H e'`, with H the moment; without one, the sum of squares.
    pub fn output_errors(&self, cpu: &Cpu, cols: usize, errors: &[f32]) -> Vec<f64> {
        let Some(moment) = &self.moment else {
            let squares = |errors: &[f32]| errors.iter().map(|e| f64::from(*e).powi(2)).sum();
            return errors.chunks_exact(cols).map(squares).collect();
        };
        let mut pulls = vec![0.0; errors.len()];
        cpu.linear(moment, None, &Input::float(errors, cols), &mut pulls);
        let rows = errors.chunks_exact(cols).zip(pulls.chunks_exact(cols));
        rows.map(|(errors, pulls)| f64::from(dot(errors, pulls))).collect()
    }
}
