//! A matrix whose rows come by the pipeline whenever it is used.

use std::ops::Range;
use std::sync::Arc;

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{BlockSize, CodeTables, Layout, Outliers, QuantType};

use super::pipeline::Pipeline;
use crate::cpu::{Cpu, Input};
use crate::error::{Result, RuntimeError};
use crate::source::{Tensor, TensorBytes};

/// How a matrix is stored.
#[derive(Debug, Clone)]
pub struct MatrixForm {
    /// Rows: outputs.
    pub rows: usize,
    /// Columns: inputs.
    pub cols: usize,
    /// Type of the values.
    pub quant: QuantType,
    /// Values per block.
    pub block: BlockSize,
    /// Order of the rows.
    pub layout: Layout,
    /// What codes of a learned type stand for.
    pub tables: Arc<CodeTables>,
    /// Weights that are stored apart.
    pub outliers: Option<Arc<Outliers>>,
}

impl MatrixForm {
    /// Bytes of a row; its data was checked to be rows of so many.
    pub fn row_bytes(&self) -> usize {
        self.quant.row_bytes(self.block, self.cols as u64).unwrap_or(u64::MAX) as usize
    }

    /// Rows of pieces of about `bytes`, whole panels.
    pub fn rows_per_piece(&self, bytes: usize) -> usize {
        (bytes / self.row_bytes().max(1) / PANEL_ROWS * PANEL_ROWS).max(PANEL_ROWS)
    }

    /// Bytes of the largest piece if pieces are of about `bytes`.
    pub fn piece_bytes(&self, bytes: usize) -> usize {
        self.rows_per_piece(bytes).min(self.rows) * self.row_bytes()
    }

    /// The rows `rows`, which begin at a panel, as a tensor over their bytes.
    ///
    /// # Errors
    /// When there are other than so many bytes.
    pub fn tensor(&self, rows: &Range<usize>, bytes: TensorBytes) -> Result<Tensor> {
        let found = bytes.as_slice().len();
        let tensor = Tensor::with_layout(rows.len(), self.cols, self.quant, self.block, self.layout, bytes);
        let tensor = tensor.map_err(|expected| {
            let expected = expected.unwrap_or(u64::MAX);
            RuntimeError::Request(format!("rows {rows:?} have {found} bytes instead of {expected}"))
        })?;
        let tensor = tensor.with_tables(&self.tables);
        Ok(match &self.outliers {
            Some(outliers) => tensor.with_outliers(outliers.clone(), rows.start),
            None => tensor,
        })
    }
}

/// A matrix in pieces of whole panels of rows.
pub struct StreamedMatrix {
    form: MatrixForm,
    rows_per_piece: usize,
    /// Numbers of the pieces in the schedule.
    pieces: Range<usize>,
    pipeline: Option<Arc<Pipeline>>,
}

impl StreamedMatrix {
    /// A matrix that is pieces `pieces` of the pipeline; without any, one of a layer that is left out.
    pub fn new(
        form: MatrixForm,
        rows_per_piece: usize,
        pieces: Range<usize>,
        pipeline: Option<Arc<Pipeline>>,
    ) -> StreamedMatrix {
        StreamedMatrix { form, rows_per_piece, pieces, pipeline }
    }

    /// Shape and type.
    pub fn form(&self) -> &MatrixForm {
        &self.form
    }

    /// As [`Cpu::linear`], bit for bit.
    ///
    /// # Errors
    /// When the rows cannot be read or are damaged, or belong to a layer that was to be left out; `out` is of no use then.
    ///
    /// # Panics
    /// When the shapes do not fit together.
    pub fn linear(&self, cpu: &Cpu, bias: Option<&[f32]>, input: &Input<'_>, out: &mut [f32]) -> Result<()> {
        let pipeline = self.pipeline.as_ref().filter(|_| !self.pieces.is_empty()).ok_or_else(|| {
            RuntimeError::Request("weights of a layer that was to be left out are used".into())
        })?;
        let mut outcome = Ok(());
        pipeline.for_each(self.pieces.clone(), |number, bytes| {
            let first = (number - self.pieces.start) * self.rows_per_piece;
            let rows = first..self.form.rows.min(first + self.rows_per_piece);
            match self.form.tensor(&rows, bytes) {
                Ok(part) => {
                    cpu.linear_rows(&part, bias.map(|bias| &bias[rows.clone()]), input, out, rows.start);
                }
                Err(e) => outcome = Err(e),
            }
        })?;
        outcome
    }
}
