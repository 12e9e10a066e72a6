//! Which experts of a stack matter most: those that many tokens go through, and that make much of them.

use std::cmp::Reverse;
use std::sync::Arc;

use qsf_runtime::source::Tensor;
use rayon::prelude::*;

use super::encoder::{Encoder, rows_per_task};
use super::fit::Fit;

/// What an expert has done with a text.
#[derive(Debug, Clone)]
pub(crate) struct ExpertInputs {
    /// As [`Fit::share`].
    pub share: f64,
    /// Mean squares of the inputs; none where nothing is known of them.
    pub squares: Option<Arc<Vec<f32>>>,
}

impl ExpertInputs {
    /// Of each of `count` experts, by their fits, or by one that all of them have.
    pub fn of_fits(fits: &[Fit], count: usize) -> Vec<ExpertInputs> {
        let of_fit = |fit: &Fit| ExpertInputs { share: fit.share, squares: fit.importance.clone() };
        match fits {
            [fit] => vec![ExpertInputs { share: 1.0, ..of_fit(fit) }; count],
            fits => fits.iter().map(of_fit).collect(),
        }
    }
}

/// How much each expert of a stack matters: the sum of `w^2 x^2`, times its share. An error of some bits is about the same part of
/// that for all of them.
pub(crate) fn expert_energies(encoder: &Encoder<'_>, stack: &Tensor, experts: &[ExpertInputs]) -> Vec<f64> {
    let (cols, rows) = (stack.cols(), stack.rows() / experts.len().max(1));
    let step = rows_per_task(cols);
    let energy = |(i, expert): (usize, &ExpertInputs)| {
        let mut sum = 0.0;
        for first in (0..rows).step_by(step) {
            let of_task = i * rows + first..i * rows + rows.min(first + step);
            for row in encoder.decode_rows(stack, of_task).chunks_exact(cols) {
                sum += match &expert.squares {
                    Some(squares) => {
                        row.iter().zip(squares.iter()).map(|(w, x)| f64::from(w * w * x)).sum::<f64>()
                    }
                    None => row.iter().map(|w| f64::from(w * w)).sum(),
                };
            }
        }
        sum * expert.share
    };
    experts.par_iter().enumerate().map(energy).collect()
}

/// Experts by their energies, the largest first; of those that are as large, the first.
pub(crate) fn by_energy(energies: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..energies.len()).collect();
    // Energies are not negative, so their bits are in their order.
    order.sort_by_key(|i| Reverse(energies[*i].to_bits()));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_that_matter_most_come_first() {
        assert_eq!(by_energy(&[1.0, 3.0, 0.0, 3.0, 2.0]), [1, 3, 4, 0, 2]);
    }
}
