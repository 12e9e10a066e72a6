//! Some rows of a matrix, really quantized: what each type does to their outputs.

use qsf_runtime::compare::ErrorStats;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::source::Tensor;

use crate::encode::{Encoder, Fit, OutlierSet, Saliency, add_outliers};
use crate::error::Result;
use crate::plan::{OutlierShare, StoredForm};

/// Rows of a matrix that are quantized in every type: whole groups of 16.
pub(super) const SAMPLE_ROWS: usize = 128;

/// Some rows of a matrix, and what they are fitted to.
pub(super) struct Sample<'a> {
    encoder: &'a Encoder<'a>,
    cpu: &'a Cpu,
    fit: &'a Fit,
    cols: usize,
    values: Vec<f32>,
}

/// How far the rows of a sample are from the original.
pub(super) struct SampleError {
    /// Error of the outputs.
    pub outputs: f64,
    /// Cosine with the original.
    pub cosine: f64,
}

impl<'a> Sample<'a> {
    /// Groups of 16 neighbouring rows, spread over all.
    pub fn new(encoder: &'a Encoder<'a>, cpu: &'a Cpu, tensor: &Tensor, fit: &'a Fit) -> Sample<'a> {
        let groups = tensor.rows().div_ceil(16);
        let step = groups.div_ceil(SAMPLE_ROWS / 16);
        let rows = (0..groups).step_by(step).map(|g| 16 * g..tensor.rows().min(16 * g + 16));
        let values = rows.flat_map(|rows| encoder.decode_rows(tensor, rows)).collect();
        Sample { encoder, cpu, fit, cols: tensor.cols(), values }
    }

    /// What storing a `share` of the weights apart may be worth; `None` if that is not one weight. Costs next to nothing.
    pub fn saliency(&self, share: OutlierShare) -> Result<Option<Saliency>> {
        let rows = self.values.len() / self.cols;
        let count = share.count(rows, self.cols);
        if count == 0 {
            return Ok(None);
        }
        let values = Tensor::from_f32(rows, self.cols, &self.values);
        let (_, saliency) = OutlierSet::choose(self.encoder, &values, 0..rows, count, self.fit)?;
        Ok(Some(saliency))
    }

    /// What storing the rows as `form` does to their outputs; `None` where its scales would leave f16.
    pub fn error(&self, form: StoredForm) -> Result<Option<SampleError>> {
        let Sample { encoder, cpu, fit, cols, ref values } = *self;
        let quant = form.quant;
        let rows = values.len() / cols;
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
        let mut errors = vec![0.0; values.len()];
        for (i, (bytes, row)) in bytes.chunks_exact(row_bytes).zip(errors.chunks_exact_mut(cols)).enumerate()
        {
            encoder.decode_row(quant, bytes, row);
            if let Some(outliers) = &outliers {
                add_outliers(outliers, i, row);
            }
        }
        let mut stats = ErrorStats::new();
        for (decoded, values) in errors.chunks_exact_mut(cols).zip(values.chunks_exact(cols)) {
            stats.add_row(encoder.isa, values, decoded);
            decoded.iter_mut().zip(values).for_each(|(decoded, value)| *decoded -= value);
        }
        Ok(Some(SampleError { outputs: fit.output_error(cpu, cols, &errors), cosine: stats.cosine() }))
    }
}
