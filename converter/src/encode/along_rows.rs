//! Rows of a matrix one run after the other, each run fitted to what the errors of those before it do to the predictions.

use std::ops::Range;

use qsf_format::Encoding;
use qsf_format::panels::PANEL_ROWS;
use qsf_runtime::source::Tensor;

use super::encoder::{BlockForm, Encoder};
use super::fit::Fit;
use super::outliers::OutlierSet;
use super::rows::EncodedRows;
use crate::error::Result;
use crate::quantize::{RowFeedback, ScaleOverflow};

/// Rows that are rounded without regard to each other: the fewer, the better (docs/measurements/simulations.md), but all cores are to have
/// work. Rows of a trellis have a thread each; others are rounded a panel at a time.
const fn run_of(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Trellis { .. } => PANEL_ROWS,
        _ => 2 * PANEL_ROWS,
    }
}

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
        let at_once = form.quant.qsf().map_or(2 * PANEL_ROWS, |quant| run_of(quant.encoding()));
        for first in (0..rows.len()).step_by(at_once) {
            self.cancel.check()?;
            let run = rows.start + first..rows.end.min(rows.start + first + at_once);
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
