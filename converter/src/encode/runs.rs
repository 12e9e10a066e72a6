//! A tensor of the model as a whole, which may be as large as many layers: encoded some rows at a time, so that whoever
//! writes it holds no more of it.

use std::ops::Range;

use qsf_format::Layout;
use qsf_runtime::source::Tensor;

use super::encoder::BlockForm;
use super::fit::Fit;
use super::outliers::OutlierSet;
use super::rows::EncodedRows;
use super::tensor::{TensorEncoder, VALUES_PER_RUN, record, row_runs};
use crate::error::Result;
use crate::plan::{PlannedTensor, TensorReport};

/// A tensor about to be encoded in runs of rows.
pub(crate) struct TensorRuns<'a> {
    encoder: &'a TensorEncoder<'a>,
    planned: &'a PlannedTensor,
    tensor: Tensor,
    fit: Fit,
    apart: Option<OutlierSet>,
    /// Its blocks.
    pub form: BlockForm,
}

impl<'a> TensorRuns<'a> {
    /// The tensor as it is planned, or, where that is not near enough to the original, as
    /// [`encode_near`](TensorEncoder::encode_near) would have it: found before anything is written.
    ///
    /// # Errors
    /// When it holds what is no number, no type is near enough, or the user interrupts.
    pub fn new(
        encoder: &'a TensorEncoder<'a>,
        planned: &'a PlannedTensor,
        fit: &Fit,
    ) -> Result<TensorRuns<'a>> {
        let tensor = encoder.source.load(planned.info.id)?;
        let (planned_as, fit) = match encoder.cosine_wanted(planned) {
            Some(wanted) => near_enough(encoder, planned, &tensor, fit, wanted)?,
            None => (planned.clone(), fit.clone()),
        };
        let form = encoder.form(&planned_as, &tensor)?;
        let apart = encoder.outliers(planned, form.quant, &tensor, 0..tensor.rows(), &fit)?;
        Ok(TensorRuns { encoder, planned, tensor, fit, apart, form })
    }

    /// The rows of each run.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        row_runs(0..self.tensor.rows(), self.tensor.cols(), VALUES_PER_RUN)
    }

    /// Some rows.
    ///
    /// # Errors
    /// When their scales leave f16, or the user interrupts.
    pub fn encode(&self, rows: Range<usize>) -> Result<EncodedRows> {
        let TensorRuns { encoder, planned, tensor, fit, apart, form } = self;
        encoder.rows.encode(&planned.info, tensor, rows, *form, fit, apart.as_ref())
    }

    /// What META says of the tensor, whose runs came to `encoded`.
    pub fn record(&self, encoded: &EncodedRows) -> TensorReport {
        record(self.planned, self.form.quant, encoded)
    }
}

/// The type and the fit with which a tensor has the cosine that is `wanted`.
fn near_enough(
    encoder: &TensorEncoder<'_>,
    planned: &PlannedTensor,
    tensor: &Tensor,
    fit: &Fit,
    wanted: f64,
) -> Result<(PlannedTensor, Fit)> {
    let trial = |planned: &PlannedTensor, fit: &Fit| -> Result<TensorReport> {
        let quant = encoder.rows.choose_type(&planned.info, tensor, planned.quant)?;
        let apart = encoder.outliers(planned, quant, tensor, 0..tensor.rows(), fit)?;
        let form = BlockForm { quant, layout: Layout::Rows };
        let mut all = EncodedRows::default();
        for rows in row_runs(0..tensor.rows(), tensor.cols(), VALUES_PER_RUN) {
            let run = encoder.rows.encode(&planned.info, tensor, rows, form, fit, apart.as_ref())?;
            all.append(EncodedRows { data: Vec::new(), ..run });
        }
        Ok(record(planned, quant, &all))
    };
    let (mut form, mut fit) = (planned.clone(), fit.clone());
    let mut found = trial(&form, &fit)?;
    if encoder.sized && found.cosine_or_zero() < wanted {
        fit = Fit::default();
        found = trial(&form, &fit)?;
    }
    while found.cosine_or_zero() < wanted {
        form = encoder.larger(planned, &found, wanted)?;
        found = trial(&form, &fit)?;
    }
    Ok((form, fit))
}
