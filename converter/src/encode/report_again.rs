//! What is reported of a tensor whose stored values were changed.

use qsf_format::Outliers;
use qsf_runtime::compare::ErrorStats;
use qsf_runtime::source::Tensor;
use rayon::prelude::*;

use super::chosen_rows::choose_rows;
use super::encoder::rows_per_task;
use super::stored_tensor::StoredTensor;
use super::tensor::TensorEncoder;
use crate::error::Result;
use crate::plan::TensorReport;

impl TensorEncoder<'_> {
    /// Measures anew how far the tensor is from the original, each of its parts for itself.
    ///
    /// # Errors
    /// When it has not the bytes of its shape, or the source is damaged.
    pub fn report_again(&self, stored: &mut StoredTensor) -> Result<()> {
        let (id, original) = (stored.id, self.source.load(stored.id)?);
        let (block, tables) = (self.rows.block, &self.rows.tables);
        let Some(split) = &mut stored.split else {
            let decoded = stored.tensor(block, tables)?;
            self.measure(&original, &decoded, &mut stored.record);
            return Ok(());
        };
        let own = |part: usize| choose_rows(&original, split.rows.rows_in(part).map(|r| r as u32).collect());
        let none = Outliers::default();
        let first = stored.encoded.tensor(id, &stored.outliers, block, tables)?;
        self.measure(&own(0), &first, &mut stored.record);
        for (number, part) in (1..).zip(&mut split.others) {
            let decoded = part.encoded.tensor(id, &none, block, tables)?;
            self.measure(&own(number), &decoded, &mut part.record);
        }
        Ok(())
    }

    fn measure(&self, original: &Tensor, decoded: &Tensor, report: &mut TensorReport) {
        let per_task = rows_per_task(original.cols());
        let parts: Vec<ErrorStats> = (0..original.rows().div_ceil(per_task))
            .into_par_iter()
            .map(|task| {
                let rows = task * per_task..((task + 1) * per_task).min(original.rows());
                let was = self.rows.decode_rows(original, rows.clone());
                let is = self.rows.decode_rows(decoded, rows);
                let mut stats = ErrorStats::new();
                let rows = was.chunks_exact(original.cols()).zip(is.chunks_exact(original.cols()));
                rows.for_each(|(was, is)| stats.add_row(self.rows.isa, was, is));
                stats
            })
            .collect();
        let mut all = ErrorStats::new();
        parts.iter().for_each(|part| all.merge(part));
        report.set_errors(all.cosine(), all.relative_error(), all.max_abs_error());
    }
}
