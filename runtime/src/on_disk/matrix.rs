//! A matrix whose rows come from disk whenever it is used: in turn by the pipeline, or, of experts, when they are chosen.

use std::ops::Range;
use std::sync::Arc;

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{BlockSize, CodeTables, Layout, Outliers, QuantType};

use super::part::StreamPart;
use super::piece_cache::PieceCache;
use super::pipeline::Pipeline;
use crate::error::{Result, RuntimeError};
use crate::linear::{Input, Products};
use crate::tensor::{Tensor, TensorBytes};
use qsf_cpu::Cpu;

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
    /// Where its raw bytes begin in the part that it is in.
    pub start: usize,
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

    /// Where `rows` are in the raw bytes of the part.
    pub fn raw_of(&self, rows: &Range<usize>) -> Range<usize> {
        self.start + rows.start * self.row_bytes()..self.start + rows.end * self.row_bytes()
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

/// A matrix of which rows are read from disk whenever it is used.
pub struct StreamedMatrix {
    form: MatrixForm,
    /// Those of the rows in the file that this is: of the matrix of all experts those of one.
    rows: Range<usize>,
    /// In whole panels.
    rows_per_piece: usize,
    pieces: Pieces,
}

/// How pieces are had.
#[derive(Clone)]
pub enum Pieces {
    /// By the pipeline, whose schedule has them under these numbers.
    InTurn(Range<usize>, Arc<Pipeline>),
    /// From this part, when the matrix is used: nobody knows before whether it will be.
    OnDemand(StreamPart, Arc<PieceCache>),
    /// Never: the matrix belongs to a layer that is left out.
    LeftOut,
}

impl StreamedMatrix {
    /// A matrix in pieces of `rows_per_piece`.
    pub fn new(form: MatrixForm, rows_per_piece: usize, pieces: Pieces) -> StreamedMatrix {
        StreamedMatrix { rows: 0..form.rows, form, rows_per_piece, pieces }
    }

    /// Shape and type of the matrix in the file.
    pub fn form(&self) -> &MatrixForm {
        &self.form
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Some rows of it; `None` where pieces come in turn, and whole.
    pub fn slice_rows(&self, rows: Range<usize>) -> Option<StreamedMatrix> {
        let (form, pieces) = (self.form.clone(), self.pieces.clone());
        let rows = self.rows.start + rows.start..self.rows.start + rows.end;
        let slice = StreamedMatrix { form, rows, pieces, rows_per_piece: self.rows_per_piece };
        (!matches!(self.pieces, Pieces::InTurn(..))).then_some(slice)
    }

    /// As [`Products::linear`], bit for bit.
    ///
    /// # Errors
    /// When the rows cannot be read or are damaged, or belong to a layer that was to be left out; `out` is of no use then.
    ///
    /// # Panics
    /// When the shapes do not fit together.
    pub fn linear(&self, cpu: &Cpu, bias: Option<&[f32]>, input: &Input<'_>, out: &mut [f32]) -> Result<()> {
        let mut multiply = |rows: Range<usize>, bytes: TensorBytes| -> Result<()> {
            let part = self.form.tensor(&rows, bytes)?;
            let columns = rows.start - self.rows.start..rows.end - self.rows.start;
            let first = columns.start;
            cpu.linear_rows(&part, bias.map(|bias| &bias[columns]), input, out, first);
            Ok(())
        };
        match &self.pieces {
            Pieces::InTurn(numbers, pipeline) => {
                let mut outcome = Ok(());
                pipeline.for_each(numbers.clone(), |number, bytes| {
                    let rows = self.piece(self.rows.start + (number - numbers.start) * self.rows_per_piece);
                    if let Err(e) = multiply(rows, bytes) {
                        outcome = Err(e);
                    }
                })?;
                outcome
            }
            Pieces::OnDemand(part, cache) => {
                for first in self.rows.clone().step_by(self.rows_per_piece) {
                    let rows = self.piece(first);
                    let bytes = cache.piece(part, &self.form.raw_of(&rows))?;
                    multiply(rows, bytes)?;
                }
                Ok(())
            }
            Pieces::LeftOut => {
                Err(RuntimeError::Request("weights of a layer that was to be left out are used".into()))
            }
        }
    }

    /// The rows of the piece that begins with row `first`.
    fn piece(&self, first: usize) -> Range<usize> {
        first..self.rows.end.min(first + self.rows_per_piece)
    }
}
