//! Some rows of a matrix, really quantized: what each type does to their outputs.

use qsf_runtime::compare::ErrorStats;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::source::Tensor;

use crate::encode::{Encoder, Fit, OutlierSet, Saliency, add_outliers, mix_rows};
use crate::error::Result;
use crate::plan::{OutlierShare, StoredForm};

/// Whole groups of 16 neighbouring rows out of `rows`, spread over all: about `most`.
pub(super) fn spread_rows(rows: usize, most: usize) -> Vec<u32> {
    let groups = rows.div_ceil(16);
    let step = groups.div_ceil(most.div_ceil(16)).max(1);
    (0..groups).step_by(step).flat_map(|g| 16 * g as u32..rows.min(16 * g + 16) as u32).collect()
}

/// Some rows of a matrix, and what they are fitted to.
pub(super) struct Sample<'a> {
    encoder: &'a Encoder<'a>,
    cpu: &'a Cpu,
    fit: &'a Fit,
    tensor: &'a Tensor,
    /// Which.
    rows: Vec<u32>,
    values: Vec<f32>,
}

/// How far the rows of a sample are from the original.
pub(super) struct SampleError {
    /// Error of the output of each row.
    rows: Vec<f64>,
    /// Cosine with the original.
    pub cosine: f64,
}

impl SampleError {
    /// The error of the output of a row, on the average.
    pub fn per_row(&self) -> f64 {
        self.rows.iter().sum::<f64>() / self.rows.len().max(1) as f64
    }
}

impl<'a> Sample<'a> {
    /// These rows of `tensor`.
    pub fn new(
        encoder: &'a Encoder<'a>,
        cpu: &'a Cpu,
        tensor: &'a Tensor,
        fit: &'a Fit,
        rows: Vec<u32>,
    ) -> Sample<'a> {
        let mut values = vec![0.0; rows.len() * tensor.cols()];
        for (row, out) in rows.iter().zip(values.chunks_exact_mut(tensor.cols())) {
            tensor.decode_row(encoder.isa, *row as usize, out);
        }
        Sample { encoder, cpu, fit, tensor, rows, values }
    }

    /// What the error does to predictions, where `squares` are squares of gradients at each output of the matrix, for each token: half
    /// of `tr(G E H E')`, of which only the diagonal of G counts, as errors of rows do not hang together.
    pub fn divergence(&self, error: &SampleError, squares: &[f32]) -> f64 {
        let of_row = |(row, error): (&u32, &f64)| error * f64::from(squares[*row as usize]);
        let sum: f64 = self.rows.iter().zip(&error.rows).map(of_row).sum();
        0.5 * sum * self.tensor.rows() as f64 / self.rows.len().max(1) as f64
    }

    /// What storing a `share` of the weights apart may be worth; `None` if that is not one weight. Costs next to nothing.
    pub fn saliency(&self, share: OutlierShare) -> Result<Option<Saliency>> {
        let (rows, cols) = (self.rows.len(), self.tensor.cols());
        let count = share.count(rows, cols);
        if count == 0 {
            return Ok(None);
        }
        let values = Tensor::from_f32(rows, cols, &self.values);
        let (_, saliency) = OutlierSet::choose(self.encoder, &values, 0..rows, count, self.fit)?;
        Ok(Some(saliency))
    }

    /// What storing the rows as `form` does to their outputs; `None` where its scales would leave f16.
    pub fn error(&self, form: StoredForm) -> Result<Option<SampleError>> {
        Ok(self.stored(form)?.map(|values| self.error_of(values)))
    }

    /// The rows as a reader gets them, stored as `form`; `None` where its scales would leave f16.
    pub fn stored(&self, form: StoredForm) -> Result<Option<Vec<f32>>> {
        let Sample { encoder, fit, ref values, .. } = *self;
        let (quant, rows, cols) = (form.quant, self.rows.len(), self.tensor.cols());
        let share = form.outliers_in(cols);
        let quantized = if share.is_none() {
            encoder.quantize(quant, cols, values, fit).map(|bytes| (bytes, None))
        } else {
            let tensor = Tensor::from_f32(rows, cols, values);
            let (set, _) = OutlierSet::choose(encoder, &tensor, 0..rows, share.count(rows, cols), fit)?;
            let quantized = set.quantize(encoder, quant, 0, values, fit);
            quantized.map(|(bytes, outliers)| (bytes, Some(outliers)))
        };
        let Ok((bytes, outliers)) = quantized else { return Ok(None) };
        let row_bytes = bytes.len() / rows.max(1);
        let mut stored = vec![0.0; values.len()];
        for (i, (bytes, row)) in bytes.chunks_exact(row_bytes).zip(stored.chunks_exact_mut(cols)).enumerate()
        {
            encoder.decode_row(quant, bytes, row);
            if let Some(outliers) = &outliers {
                add_outliers(outliers, i, row);
            }
        }
        Ok(Some(stored))
    }

    /// How far these values of the rows are from the original.
    pub fn error_of(&self, stored: Vec<f32>) -> SampleError {
        let (mut errors, cols) = (stored, self.tensor.cols());
        let mut stats = ErrorStats::new();
        for (stored, values) in errors.chunks_exact_mut(cols).zip(self.values.chunks_exact(cols)) {
            stats.add_row(self.encoder.isa, values, stored);
            stored.iter_mut().zip(values).for_each(|(stored, value)| *stored -= value);
        }
        SampleError { rows: self.fit.output_errors(self.cpu, cols, &errors), cosine: stats.cosine() }
    }

    /// The whole matrix with these values of the rows.
    pub fn matrix_with(&self, stored: &[f32]) -> Tensor {
        let changed = Tensor::from_f32(self.rows.len(), self.tensor.cols(), stored);
        mix_rows(self.tensor, &changed, &self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_groups_from_all_over_the_matrix() {
        assert_eq!(spread_rows(40, 128), (0..40).collect::<Vec<u32>>());
        let some = spread_rows(2048, 128);
        assert_eq!((some.len(), some[16], some[127]), (128, 256, 1807));
        assert_eq!(spread_rows(2000, 1).len(), 16);
        assert!(spread_rows(0, 128).is_empty());
    }
}
