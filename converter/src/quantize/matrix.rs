//! Whole matrices into any stored type, with what calibration knows about their inputs.

use qsf_format::{BUILT_IN, BlockSize, CodeTables, Encoding, QuantType};
use qsf_runtime::cpu::Isa;

use super::by_type::{TypeWork, by_type};
use super::feedback::Feedback;
use super::floats::{ToBf16, ToF16, ToF32};
use super::grid_rows::GridRows;
use super::half_scale::ScaleOverflow;
use super::learned::Grid;
use super::levels::{Even, Levels, Table};
use super::plain_rows::PlainRows;
use super::rows::{BlockType, EncodeRows};
use super::trellis::TrellisRows;
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
    /// About how many paths of a trellis type survive a step.
    pub survivors: usize,
}

impl Effort {
    /// For what is compared with nothing but itself.
    pub const PROBE: Effort = Effort { descents: 0, survivors: 64 };
    /// For trial runs.
    pub const QUICK: Effort = Effort { descents: 4, survivors: 64 };
    /// For those who cannot wait.
    pub const BRIEF: Effort = Effort { descents: 2, survivors: 32 };
    /// All that was found to pay.
    pub const FULL: Effort = Effort { descents: 4, survivors: 192 };
    /// For those who have time: 2 to 3 % less error of trellis types, in twice the time.
    pub const THOROUGH: Effort = Effort { survivors: 448, ..Effort::FULL };

    /// This, or what is less of `other`.
    pub fn at_most(self, other: Effort) -> Effort {
        Effort { descents: self.descents.min(other.descents), survivors: self.survivors.min(other.survivors) }
    }
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
    let Matrix { quant, cols, .. } = *matrix;
    assert!(cols > 0 && values.len().is_multiple_of(cols), "{} values in rows of {cols}", values.len());
    assert!(importance.is_none_or(|w| w.len() == cols), "one importance per column");
    assert!(feedback.is_none_or(|feedback| feedback.cols() == cols), "feedback for {cols} columns");
    let weights = ColumnWeights::new(BlockSize::B32, cols, importance);
    let work = MatrixWork { matrix, values, feedback, weights: weights.flat(), importance, effort };
    by_type(quant, work)
}

/// Writes rows of `cols` values as `quant`, with the built-in tables, in the bytes that [`qsf_format::decode_row`] reads. Padding codes of the last
/// block of a row are 0 in all their bits.
///
/// `values` holds whole rows of finite numbers, and `out` as many times [`QuantType::row_bytes`]. `importance` holds one
/// finite weight of 0 or more per column, in any unit; `None` weighs all columns alike. What is made small is, block by
/// block, the sum of importance * (value - decoded)^2. Float types have nothing to choose and ignore it.
///
/// # Errors
/// When a scale, min or f16 value leaves the finite range of binary16; `out` then holds no useful bytes.
///
/// # Panics
/// When the lengths of `values`, `out` or `importance` do not fit `cols`.
pub fn quantize_rows(
    isa: Isa,
    quant: QuantType,
    block: BlockSize,
    cols: usize,
    values: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), ScaleOverflow> {
    if values.is_empty() {
        assert!(out.is_empty(), "{} bytes for no values", out.len());
        return Ok(());
    }
    assert!(cols > 0 && values.len().is_multiple_of(cols), "{} values in rows of {cols}", values.len());
    let rows = (values.len() / cols) as u64;
    let bytes = quant.tensor_bytes(block, rows, cols as u64);
    assert_eq!(Some(out.len() as u64), bytes, "bytes of {rows} x {cols} {quant}");
    assert!(importance.is_none_or(|w| w.len() == cols), "one importance per column");

    let matrix = Matrix { isa, quant, block, tables: &BUILT_IN, cols };
    out.copy_from_slice(&quantize_matrix(&matrix, values, None, importance, Effort::FULL)?);
    Ok(())
}

/// The arguments of [`quantize_matrix`] on their way to a quantizer.
struct MatrixWork<'a> {
    matrix: &'a Matrix<'a>,
    values: &'a [f32],
    feedback: Option<&'a Feedback>,
    /// Importance in whole blocks of 32.
    weights: &'a [f32],
    importance: Option<&'a [f32]>,
    effort: Effort,
}

impl MatrixWork<'_> {
    fn grid<L: Levels>(self, levels: L, clipped: f32) -> Result<Vec<u8>, ScaleOverflow> {
        let Matrix { isa, quant, tables, cols, .. } = *self.matrix;
        let shift = tables.grid(quant).map_or(0.0, |(_, shift)| f32::from(shift));
        let rows = GridRows {
            isa,
            grid: Grid { levels, shift, clipped },
            bits: quant.encoding().code_bits(),
            cols,
            feedback: self.feedback,
            importance: self.weights,
            descents: self.effort.descents,
        };
        rows.encode(self.values)
    }

    /// Room for the bytes of all rows.
    fn room(&self) -> Vec<u8> {
        let Matrix { quant, block, cols, .. } = *self.matrix;
        let row_bytes = quant.row_bytes(block, cols as u64).unwrap_or(0) as usize;
        vec![0; self.values.len() / cols * row_bytes]
    }

    /// Each block for itself.
    fn block_by_block<T: BlockType>(self, block_type: T) -> Result<Vec<u8>, ScaleOverflow> {
        let Matrix { isa, quant, block, cols, .. } = *self.matrix;
        let (weights, mut out) = (ColumnWeights::new(block, cols, self.importance), self.room());
        let block_bytes = quant.block_bytes(block);
        let (values, weights) = (self.values, &weights);
        isa.vectorize(EncodeRows { block, block_bytes, cols, values, weights, out: &mut out, block_type })?;
        Ok(out)
    }
}

impl TypeWork for MatrixWork<'_> {
    type Output = Result<Vec<u8>, ScaleOverflow>;

    fn floats(self) -> Self::Output {
        let (Matrix { isa, quant, .. }, mut out) = (*self.matrix, self.room());
        match quant {
            QuantType::F16 => isa.vectorize(ToF16(self.values, &mut out))?,
            QuantType::Bf16 => isa.vectorize(ToBf16(self.values, &mut out)),
            _ => isa.vectorize(ToF32(self.values, &mut out)),
        }
        Ok(out)
    }

    fn blocks<T: BlockType>(self, block_type: T) -> Self::Output {
        let Some(feedback) = self.feedback else { return self.block_by_block(block_type) };
        let Matrix { isa, quant, block, cols, .. } = *self.matrix;
        let block_bytes = quant.block_bytes(block);
        PlainRows { isa, block, block_bytes, cols, feedback, descents: self.effort.descents, block_type }
            .encode(self.values)
    }

    fn table<const GAPS: usize>(self, clipped: f32) -> Self::Output {
        let levels = self.matrix.tables.grid(self.matrix.quant).map_or(&[][..], |(levels, _)| levels);
        self.grid(Table::<GAPS>::new(levels), clipped)
    }

    fn even(self, clipped: f32) -> Self::Output {
        self.grid(Even, clipped)
    }

    fn trellis<const BITS: usize>(self, scale: f32) -> Self::Output {
        let Matrix { isa, quant, tables, cols, .. } = *self.matrix;
        let Encoding::Trellis { state, .. } = quant.encoding() else {
            unreachable!("{quant} is no trellis type")
        };
        let rows = TrellisRows::<BITS> {
            isa,
            state,
            sums: tables.sums(quant).expect("a trellis type has sums"),
            cols,
            feedback: self.feedback,
            importance: self.weights,
            scale,
            survivors: self.effort.survivors,
        };
        rows.encode(self.values)
    }
}
