//! Floats into the stored types of SPEC.md section 6, with the least error that a search finds.
//!
//! The format fixes only what stored bytes mean; everything here is this encoder's choice. All arithmetic runs in the
//! fixed order of [`qsf_runtime::cpu::lanes`], so that the bytes are the same on every processor.
//!
//! | File | Duty |
//! |---|---|
//! | `rows`, `affine`, `two_level`, `eight_bit` | plain block types, block by block |
//! | `matrix` | any type, with what calibration knows |
//! | `linear_algebra`, `feedback`, `strips` | second moments, factored for feedback |
//! | `coder`, `group` | feedback and descent for any block type, 16 rows at once |
//! | `plain_rows` | plain block types under feedback |
//! | `learned`, `levels`, `grid_rows` | N2 to N5 and 6bit |
//! | `trellis`, `trellis_rows` | T2 and T3 |
//! | `learn` | grids from weights |
//! | `upstream` | weights that make up for errors before them |

mod affine;
mod block;
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

use qsf_format::{BlockSize, CodeTables, QuantType};
use qsf_runtime::cpu::Isa;

pub use feedback::{Feedback, MomentError};
pub use finite::first_non_finite;
pub use learn::{Sample, learn_tables};
pub use matrix::{Effort, Matrix, quantize_matrix};
pub use upstream::Correction;

use rows::{Affine, BlockType, EightBit, EncodeRows, Symmetric, Ternary};
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

    let job = Job { isa, quant, block, cols, values, importance };
    match quant {
        QuantType::Q2Sym => job.encode(Symmetric, out),
        QuantType::Q2 => job.encode(Affine::<3>, out),
        QuantType::Q3 => job.encode(Affine::<7>, out),
        QuantType::Q4 => job.encode(Affine::<15>, out),
        QuantType::Ternary => job.encode(Ternary, out),
        QuantType::Q8 => job.encode(EightBit, out),
        QuantType::F16 => isa.vectorize(floats::ToF16(values, out)),
        QuantType::Bf16 => {
            isa.vectorize(floats::ToBf16(values, out));
            Ok(())
        }
        QuantType::F32 => {
            isa.vectorize(floats::ToF32(values, out));
            Ok(())
        }
        _ => {
            let tables = CodeTables::default();
            let job = Matrix { isa, quant, block, tables: &tables, cols };
            out.copy_from_slice(&quantize_matrix(&job, values, None, importance, Effort::FULL)?);
            Ok(())
        }
    }
}

/// The arguments of [`quantize_rows`] on their way to a block type.
struct Job<'a> {
    isa: Isa,
    quant: QuantType,
    block: BlockSize,
    cols: usize,
    values: &'a [f32],
    importance: Option<&'a [f32]>,
}

impl Job<'_> {
    fn encode<T: BlockType>(self, block_type: T, out: &mut [u8]) -> Result<(), ScaleOverflow> {
        let weights = ColumnWeights::new(self.block, self.cols, self.importance);
        self.isa.vectorize(EncodeRows {
            block: self.block,
            block_bytes: self.quant.block_bytes(self.block),
            cols: self.cols,
            values: self.values,
            weights: &weights,
            out,
            block_type,
        })
    }
}
