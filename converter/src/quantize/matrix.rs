//! Whole matrices into any stored type, with what calibration knows about their inputs.

use qsf_format::{BlockSize, CodeTables, QuantType, SumTables};
use qsf_runtime::cpu::Isa;

use super::ScaleOverflow;
use super::feedback::Feedback;
use super::grid_rows::GridRows;
use super::learned::Grid;
use super::levels::{Even, Levels, Table};
use super::plain_rows::PlainRows;
use super::quantize_rows;
use super::rows::{Affine, BlockType, EightBit, Symmetric, Ternary};
use super::trellis_rows::TrellisRows;
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
    /// Row scales of a trellis type that are tried, 1 or 2.
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
    let Matrix { quant, tables, cols, .. } = *matrix;
    assert!(cols > 0 && values.len().is_multiple_of(cols), "{} values in rows of {cols}", values.len());
    assert!(importance.is_none_or(|w| w.len() == cols), "one importance per column");
    assert!(feedback.is_none_or(|feedback| feedback.cols() == cols), "feedback for {cols} columns");
    let weights = ColumnWeights::new(BlockSize::B32, cols, importance);
    let job = Job { matrix, values, feedback, weights: weights.flat(), importance, effort };
    match quant {
        QuantType::N2 => job.grid(2, Table::<3>::new(&tables.n2.levels), tables.n2.shift, 0.4),
        QuantType::N3 => job.grid(3, Table::<7>::new(&tables.n3.levels), tables.n3.shift, 0.5),
        QuantType::N4 => job.grid(4, Table::<15>::new(&tables.n4.levels), tables.n4.shift, 0.65),
        QuantType::N5 => job.grid(5, Table::<31>::new(&tables.n5.levels), tables.n5.shift, 0.65),
        QuantType::Q6 => job.grid(6, Even, tables.q6_shift, 0.8),
        QuantType::T2 => job.trellis::<2>(&tables.t2, &[1.08, 1.2], 1.12),
        QuantType::T3 => job.trellis::<3>(&tables.t3, &[1.1, 1.22], 1.17),
        QuantType::Q2Sym => job.plain(Symmetric),
        QuantType::Q2 => job.plain(Affine::<3>),
        QuantType::Q3 => job.plain(Affine::<7>),
        QuantType::Q4 => job.plain(Affine::<15>),
        QuantType::Ternary => job.plain(Ternary),
        QuantType::Q8 => job.plain(EightBit),
        QuantType::F16 | QuantType::Bf16 | QuantType::F32 => job.without_feedback(),
    }
}

/// The arguments of [`quantize_matrix`] on their way to a grid.
struct Job<'a> {
    matrix: &'a Matrix<'a>,
    values: &'a [f32],
    feedback: Option<&'a Feedback>,
    /// Importance in whole blocks of 32.
    weights: &'a [f32],
    importance: Option<&'a [f32]>,
    effort: Effort,
}

impl Job<'_> {
    fn grid<L: Levels>(
        &self,
        bits: usize,
        levels: L,
        shift: i8,
        clipped: f32,
    ) -> Result<Vec<u8>, ScaleOverflow> {
        let rows = GridRows {
            isa: self.matrix.isa,
            grid: Grid { levels, shift: f32::from(shift), clipped },
            bits,
            cols: self.matrix.cols,
            feedback: self.feedback,
            importance: self.weights,
            descents: self.effort.descents,
        };
        rows.encode(self.values)
    }

    /// With the row scales `trials`, or where one must do, `single`.
    fn trellis<const BITS: usize>(
        &self,
        sums: &SumTables,
        trials: &[f32],
        single: f32,
    ) -> Result<Vec<u8>, ScaleOverflow> {
        let rows = TrellisRows::<BITS> {
            isa: self.matrix.isa,
            sums,
            cols: self.matrix.cols,
            feedback: self.feedback,
            importance: self.weights,
            trials: if self.effort.trials < trials.len() { &[single] } else { trials },
        };
        rows.encode(self.values)
    }

    fn plain<T: BlockType>(&self, block_type: T) -> Result<Vec<u8>, ScaleOverflow> {
        let Some(feedback) = self.feedback else { return self.without_feedback() };
        let Matrix { isa, quant, block, cols, .. } = *self.matrix;
        let block_bytes = quant.block_bytes(block);
        PlainRows { isa, block, block_bytes, cols, feedback, descents: self.effort.descents, block_type }
            .encode(self.values)
    }

    fn without_feedback(&self) -> Result<Vec<u8>, ScaleOverflow> {
        let Matrix { isa, quant, block, cols, .. } = *self.matrix;
        let row_bytes = quant.row_bytes(block, cols as u64).unwrap_or(0) as usize;
        let mut out = vec![0; self.values.len() / cols * row_bytes];
        quantize_rows(isa, quant, block, cols, self.values, self.importance, &mut out)?;
        Ok(out)
    }
}
