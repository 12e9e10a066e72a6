//! Rows of a matrix one run after the other, each run fitted to what the errors of those before it do to the predictions.

use std::ops::Range;

use qsf_format::panels::PANEL_ROWS;
use qsf_runtime::source::Tensor;

use super::encoder::{BlockForm, Encoder};
use super::fit::Fit;
use super::outliers::OutlierSet;
use super::rows::EncodedRows;
use crate::error::Result;
use crate::quantize::{RowFeedback, ScaleOverflow};

/// Rows that are rounded without regard to each other: two panels, so that two cores have work; rows of a trellis have a thread each.
/// Runs of sixteen gain 2 % (docs/measurements/simulations.md).
const RUN: usize = 2 * PANEL_ROWS;

impl Encoder<'_> {
    /// Encodes rows `rows`, of which `outputs` knows the gradients.
    pub(super) fn encode_along_rows(
        &self,
        tensor: &Tensor,
        rows: Range<usize>,
        form: BlockForm,
        fit: &Fit,
        apart: Option<&OutlierSet>,
        outputs: &RowFeedback,
    ) -> Result<Result<EncodedRows, ScaleOverflow>> {
        let (mut whole, mut errors) = (EncodedRows::default(), Vec::new());
        for first in (0..rows.len()).step_by(RUN) {
            self.cancel.check()?;
            let run = rows.start + first..rows.end.min(rows.start + first + RUN);
            let (count, values) = (run.len(), run.len() * tensor.cols());
            let shifts = outputs.shifts(self.isa, first, count, &errors, tensor.cols());
            match self.encode_task(tensor, run, form, fit, apart, Some(&shifts)) {
                Ok((encoded, of_run)) => {
                    whole.append(encoded);
                    errors.extend(of_run);
                }
                Err(overflow) => return Ok(Err(overflow)),
            }
            self.progress.advance(values as u64);
        }
        Ok(Ok(whole))
    }
}
