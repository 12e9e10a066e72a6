//! What errors of a matrix do to the model as a whole: its divergence when only some rows of that matrix are in one type.

use qsf_format::QuantType;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::source::{Replaced, Tensor};

use super::sample::Sample;
use crate::encode::{Fit, TensorEncoder};
use crate::error::Result;
use crate::plan::PlannedTensor;

/// Least damage of anything: that a measured divergence is below its noise does not make a tensor free.
const LEAST_DAMAGE: f64 = 1e-9;
/// Most damage of anything, and that of what makes predictions that are no numbers.
pub(super) const MOST_DAMAGE: f64 = 1e6;
/// Rows of a matrix that are changed, rather than all: quantizing all takes long, and with a few the predictions are nearer to those that
/// they are to have in the end.
const LEAST_ROWS: usize = 512;
/// One in so many is, where these are more: the rows of stacks of experts differ much.
const PART: usize = 16;
/// Most of their values: they are in memory several times.
const MOST_VALUES: usize = 1 << 23;

/// Rows of a matrix of this shape that are changed.
pub(super) fn probed_rows(rows: usize, cols: usize) -> usize {
    (rows / PART).min(MOST_VALUES / cols.max(1)).max(LEAST_ROWS)
}

/// A matrix that is changed.
pub(super) struct Probed<'a> {
    pub encoder: &'a TensorEncoder<'a>,
    pub cpu: &'a Cpu,
    pub planned: &'a PlannedTensor,
    pub tensor: &'a Tensor,
    pub fit: &'a Fit,
    /// The type of what is changed.
    pub quant: QuantType,
}

impl Probed<'_> {
    /// Divergence of the model with `rows` in the probe's type, by `measure`, for each unit of the mean error of their outputs. `None`
    /// where the scales of the type would leave f16.
    ///
    /// # Errors
    /// Those of `measure`, and when the user interrupts.
    pub fn per_error(
        &self,
        rows: Vec<u32>,
        measure: impl FnOnce(&Replaced<'_>) -> Result<f64>,
    ) -> Result<Option<f64>> {
        let Probed { encoder, cpu, tensor, fit, .. } = *self;
        let probing = encoder.probing();
        let sample = Sample::new(&probing.rows, cpu, tensor, fit, rows);
        let Some(stored) = sample.stored(self.quant.into())? else { return Ok(None) };
        let mut replaced = Replaced::new(encoder.source);
        replaced.replace(self.planned.info.id, sample.matrix_with(&stored))?;
        let divergence = within_bounds(measure(&replaced)?);
        Ok(Some(divergence / sample.error_of(stored).per_row().max(f64::MIN_POSITIVE)))
    }
}

/// A damage that can be added up: not NaN, which `max` alone would make the least of all.
pub(super) fn within_bounds(damage: f64) -> f64 {
    if damage.is_nan() { MOST_DAMAGE } else { damage.clamp(LEAST_DAMAGE, MOST_DAMAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_rows_is_changed_and_of_large_matrices_a_bounded_one() {
        assert_eq!(probed_rows(100, 64), 512);
        assert_eq!(probed_rows(131_072, 896), 8192);
        assert_eq!(probed_rows(262_144, 4096), 2048);
        assert_eq!(probed_rows(1 << 20, 1 << 20), 512);
    }
}
