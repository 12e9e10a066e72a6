//! Floats into the stored types of SPEC.md section 6, with the least error that a search finds.
//!
//! The format fixes only what stored bytes mean; everything here is this encoder's choice. All arithmetic runs in the
//! fixed order of [`qsf_runtime::cpu::lanes`], so that the bytes are the same on every processor.
//!
//! | File | Duty |
//! |---|---|
//! | `by_type` | which quantizer each type has |
//! | `rows`, `affine`, `two_level`, `eight_bit` | plain block types, block by block |
//! | `matrix` | any type, with what calibration knows |
//! | `linear_algebra`, `feedback`, `strips` | second moments, factored for feedback |
//! | `coder`, `group` | feedback and descent for any block type, 16 rows at once |
//! | `plain_rows` | plain block types under feedback |
//! | `learned`, `levels`, `grid_rows` | types with a grid |
//! | `trellis`, `trellis_rows` | trellis types |
//! | `learn` | grids from weights |
//! | `upstream` | weights that make up for errors before them |

mod affine;
mod block;
mod by_type;
mod coder;
mod eight_bit;
mod feedback;
mod finite;
mod floats;
mod grid_rows;
mod group;
mod half_scale;
mod learn;
mod learned;
mod levels;
mod linear_algebra;
mod matrix;
mod pack;
mod plain_rows;
mod rows;
mod strips;
mod trellis;
mod trellis_rows;
mod two_level;
mod upstream;
mod vectors;
mod weights;

#[cfg(test)]
mod tests;

use qsf_format::{BUILT_IN, BlockSize, QuantType};
use qsf_runtime::cpu::Isa;

pub use feedback::{Feedback, MomentError};
pub use finite::first_non_finite;
pub use learn::{Sample, learn_tables};
pub use matrix::{Effort, Matrix, quantize_matrix};
pub use upstream::Correction;

use by_type::{TrellisScales, TypeWork, by_type};
use rows::{BlockType, EncodeRows};
use weights::ColumnWeights;

/// A scale, a min or an f16 value would leave the finite range of binary16. Nothing is saturated: the caller stores the
/// tensor in a type with the range of f32 instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("values need a scale beyond the range of f16")]
pub struct ScaleOverflow;

/// Writes rows of `cols` values as `quant`, in the bytes that [`qsf_format::decode_row`] reads. Padding codes of the last
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

    by_type(quant, RowsWork { isa, quant, block, cols, values, importance, out })
}

/// The arguments of [`quantize_rows`] on their way to a quantizer.
struct RowsWork<'a> {
    isa: Isa,
    quant: QuantType,
    block: BlockSize,
    cols: usize,
    values: &'a [f32],
    importance: Option<&'a [f32]>,
    out: &'a mut [u8],
}

impl RowsWork<'_> {
    /// With the built-in tables.
    fn learned(self) -> Result<(), ScaleOverflow> {
        let RowsWork { isa, quant, block, cols, values, importance, out } = self;
        let matrix = Matrix { isa, quant, block, tables: &BUILT_IN, cols };
        out.copy_from_slice(&quantize_matrix(&matrix, values, None, importance, Effort::FULL)?);
        Ok(())
    }
}

impl TypeWork for RowsWork<'_> {
    type Output = Result<(), ScaleOverflow>;

    fn floats(self) -> Self::Output {
        let RowsWork { isa, quant, values, out, .. } = self;
        match quant {
            QuantType::F16 => return isa.vectorize(floats::ToF16(values, out)),
            QuantType::Bf16 => isa.vectorize(floats::ToBf16(values, out)),
            _ => isa.vectorize(floats::ToF32(values, out)),
        }
        Ok(())
    }

    fn blocks<T: BlockType>(self, block_type: T) -> Self::Output {
        let weights = ColumnWeights::new(self.block, self.cols, self.importance);
        self.isa.vectorize(EncodeRows {
            block: self.block,
            block_bytes: self.quant.block_bytes(self.block),
            cols: self.cols,
            values: self.values,
            weights: &weights,
            out: self.out,
            block_type,
        })
    }

    fn table<const GAPS: usize>(self, _clipped: f32) -> Self::Output {
        self.learned()
    }

    fn even(self, _clipped: f32) -> Self::Output {
        self.learned()
    }

    fn trellis<const BITS: usize>(self, _scales: TrellisScales) -> Self::Output {
        self.learned()
    }
}
