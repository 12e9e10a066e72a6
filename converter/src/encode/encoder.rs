//! What encoding needs beside the tensor, and the two ends of it: rows of floats from the source, blocks of such rows.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use qsf_format::{BlockSize, CodeTables, Layout};
use qsf_runtime::cpu::{Isa, decode_row};
use qsf_runtime::ggml;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::Tensor;

use super::fit::Fit;
use crate::plan::TensorType;
use crate::quantize::{
    Effort, GgmlMatrix, GroupMatrix, Matrix, ScaleOverflow, quantize_ggml, quantize_groups, quantize_matrix,
};

/// Values that one task handles: enough to outweigh its overhead, little enough to share among cores.
pub(super) const VALUES_PER_TASK: usize = 1 << 16;

/// What encoding needs beside the tensor.
#[derive(Clone)]
pub(crate) struct Encoder<'a> {
    pub isa: Isa,
    pub block: BlockSize,
    pub tables: Arc<CodeTables>,
    pub effort: Effort,
    /// The source, for messages.
    pub source: &'a Path,
    /// Counts weights.
    pub progress: &'a dyn Progress,
    pub cancel: &'a Cancel,
}

/// What the blocks of a tensor are, and in which order they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockForm {
    pub quant: TensorType,
    pub layout: Layout,
}

impl Encoder<'_> {
    /// Rows of `cols` values as plain rows of `quant`.
    pub fn quantize(
        &self,
        quant: TensorType,
        cols: usize,
        values: &[f32],
        fit: &Fit,
    ) -> Result<Vec<u8>, ScaleOverflow> {
        let (isa, feedback) = (self.isa, fit.feedback.as_deref());
        let importance = fit.importance.as_ref().map(|weights| weights.as_slice());
        match quant {
            TensorType::Qsf(quant) => {
                let matrix = Matrix { isa, quant, block: self.block, tables: &self.tables, cols };
                quantize_matrix(&matrix, values, feedback, importance, self.effort)
            }
            TensorType::Ggml(ty) => {
                quantize_ggml(&GgmlMatrix { isa, ty, cols }, values, feedback, importance, self.effort)
            }
            TensorType::Groups(ty) => {
                quantize_groups(&GroupMatrix { isa, ty, cols }, values, feedback, importance, self.effort)
            }
        }
    }

    /// A plain row of `quant` as floats.
    pub fn decode_row(&self, quant: TensorType, bytes: &[u8], out: &mut [f32]) {
        match quant {
            TensorType::Qsf(quant) => decode_row(self.isa, quant, self.block, &self.tables, bytes, out),
            TensorType::Ggml(ty) => ggml::decode_row(self.isa, ty, bytes, out),
            TensorType::Groups(ty) => ty.decode_row(self.isa, bytes, out),
        }
    }

    /// Rows of the source as floats.
    pub fn decode_rows(&self, tensor: &Tensor, rows: Range<usize>) -> Vec<f32> {
        let mut values = vec![0.0; rows.len() * tensor.cols()];
        for (row, out) in rows.zip(values.chunks_exact_mut(tensor.cols())) {
            tensor.decode_row(self.isa, row, out);
        }
        values
    }
}

/// Rows of `cols` values that one task handles.
pub(super) fn rows_per_task(cols: usize) -> usize {
    (VALUES_PER_TASK / cols.max(1)).max(1)
}
