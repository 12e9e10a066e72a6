//! Whole matrices into any stored type, with what calibration knows about their inputs.

use qsf_format::{BlockSize, CodeTables, QuantType};
use qsf_runtime::cpu::Isa;

use super::ScaleOverflow;
use super::feedback::Feedback;
use super::grid_rows::GridRows;
use super::learned::Grid;
use super::levels::{Even, Levels, Table};
use super::quantize_rows;
use super::weights::ColumnWeights;

/// What a matrix is to become.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// Instruction set; the bytes do not depend on it.
    pub isa: Isa,
    /// Stored type.
    pub quant: QuantType,
    /// Block size of the file, of no effect on learned types.
    pub block: BlockSize,
    /// What the codes of learned types stand for. Grids are in ascending order.
    pub tables: &'a CodeTables,
    /// Values of a row.
    pub cols: usize,
}

/// How much time a better result may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Passes of coordinate descent after feedback at most.
    pub descents: usize,
    /// Row scales of a trellis type that are tried.
    pub trials: usize,
}

impl Effort {
    /// Feedback alone, for trial runs.
    pub const QUICK: Effort = Effort { descents: 0, trials: 1 };
    /// All that was found to pay.
    pub const FULL: Effort = Effort { descents: 4, trials: 2 };
}

/// Whole rows of finite values in the bytes that [`qsf_format::decode_row`] reads.
///
/// With `feedback` the mean square error of the matrix's outputs is made small, and `importance` is not looked at; without,
/// the squares of the errors of the weights, weighted by `importance` (see [`quantize_rows`]). Float types have nothing to
/// choose.
///
/// # Errors
/// When a scale leaves the range of binary16.
///
/// # Panics
/// When lengths do not fit `cols`, or a grid in use is not in ascending order.
pub fn quantize_matrix(
    matrix: &Matrix<'_>,
    values: &[f32],
    feedback: Option<&Feedback>,
    importance: Option<&[f32]>,
    effort: Effort,
) -> Result<Vec<u8>, ScaleOverflow> {
    let Matrix { isa, quant, block, tables, cols } = *matrix;
    assert!(cols > 0 && values.len().is_multiple_of(cols), "{} values in rows of {cols}", values.len());
    assert!(importance.is_none_or(|w| w.len() == cols), "one importance per column");
    assert!(feedback.is_none_or(|feedback| feedback.cols() == cols), "feedback for {cols} columns");
    let Some((levels, shift)) = tables.grid(quant) else {
        let row_bytes = quant.row_bytes(block, cols as u64).unwrap_or(0) as usize;
        let mut out = vec![0; values.len() / cols * row_bytes];
        quantize_rows(isa, quant, block, cols, values, importance, &mut out)?;
        return Ok(out);
    };
    let weights = ColumnWeights::new(BlockSize::B32, cols, importance);
    let job = Job { matrix, values, feedback, weights: weights.flat(), shift, effort };
    match quant {
        QuantType::N2 => job.encode(2, Table::<3>::new(levels), 0.4),
        QuantType::N3 => job.encode(3, Table::<7>::new(levels), 0.5),
        QuantType::N4 => job.encode(4, Table::<15>::new(levels), 0.65),
        QuantType::N5 => job.encode(5, Table::<31>::new(levels), 0.65),
        _ => job.encode(6, Even, 0.8),
    }
}

/// The arguments of [`quantize_matrix`] on their way to a grid.
struct Job<'a> {
    matrix: &'a Matrix<'a>,
    values: &'a [f32],
    feedback: Option<&'a Feedback>,
    weights: &'a [f32],
    shift: i8,
    effort: Effort,
}

impl Job<'_> {
    fn encode<L: Levels>(&self, bits: usize, levels: L, clipped: f32) -> Result<Vec<u8>, ScaleOverflow> {
        let rows = GridRows {
            isa: self.matrix.isa,
            grid: Grid { levels, shift: f32::from(self.shift), clipped },
            bits,
            cols: self.matrix.cols,
            feedback: self.feedback,
            importance: self.weights,
            descents: self.effort.descents,
        };
        rows.encode(self.values)
    }
}
