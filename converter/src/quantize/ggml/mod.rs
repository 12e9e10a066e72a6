//! Floats into the block types of ggml, as [`qsf_runtime::ggml::decode_row`] reads them: scales by search, codes by feedback and
//! descent, as for the types of QSF.
//!
//! | File | Duty |
//! |---|---|
//! | `shape` | what the types are: levels, groups, ranges of scales |
//! | `search` | scales of one group of columns |
//! | `scales` | scales over the scales of a block |
//! | `coder` | a type under feedback |
//! | `pack` | scales and codes as bytes |
//! | `rows` | whole rows |
//! | [`points`] | types with a grid of points for several values |

mod coder;
mod pack;
mod points;
mod rows;
mod scales;
mod search;
mod shape;
#[cfg(test)]
mod tests;

use qsf_runtime::cpu::Isa;
use qsf_runtime::ggml::GgmlType;

use self::points::{PointRows, point_shape_of};
use self::rows::GgmlRows;
pub(super) use self::search::{CANDIDATES, Grid, Group, NONE, Pair, pick};
use self::shape::{Floats15, Levels16, shape_of};
pub(super) use self::shape::{Form, Integers, ScaleForm, Shape};
use super::feedback::Feedback;
use super::half_scale::ScaleOverflow;
use super::matrix::Effort;

/// What a matrix is to become.
#[derive(Debug, Clone, Copy)]
pub struct GgmlMatrix {
    /// Instruction set; the bytes do not depend on it.
    pub isa: Isa,
    /// Stored type, one that there is a quantizer for.
    pub ty: GgmlType,
    /// Values of a row, a whole number of blocks.
    pub cols: usize,
}

/// Whole rows of finite values as blocks. With `feedback` the mean square error of the matrix's outputs is made small, and
/// `importance` is not looked at; without, the squares of the errors of the weights, weighted by `importance`.
///
/// # Errors
/// When a scale leaves the range of binary16.
///
/// # Panics
/// When lengths do not fit `cols`, `cols` is no whole number of blocks, or there is no quantizer for the type.
pub fn quantize_ggml(
    matrix: &GgmlMatrix,
    values: &[f32],
    feedback: Option<&Feedback>,
    importance: Option<&[f32]>,
    effort: Effort,
) -> Result<Vec<u8>, ScaleOverflow> {
    let GgmlMatrix { isa, ty, cols } = *matrix;
    let whole = cols > 0 && cols.is_multiple_of(ty.block_len()) && values.len().is_multiple_of(cols);
    assert!(whole, "{} values in rows of {cols} as {ty}", values.len());
    assert!(importance.is_none_or(|w| w.len() == cols), "one importance per column");
    assert!(feedback.is_none_or(|feedback| feedback.cols() == cols), "feedback for {cols} columns");
    let even = vec![1.0; cols];
    let importance = importance.unwrap_or(&even);
    let descents = effort.descents;
    if let Some(shape) = point_shape_of(ty) {
        return PointRows { isa, shape, cols, feedback, importance, descents }.encode(values);
    }
    let shape = shape_of(ty).unwrap_or_else(|| panic!("a quantizer for {ty}"));
    match shape.form {
        Form::Integers { low, high } => {
            let levels = Integers { low, high };
            GgmlRows { isa, ty, shape, levels, cols, feedback, importance, descents }.encode(values)
        }
        Form::Floats => {
            let levels = Floats15::doubled();
            GgmlRows { isa, ty, shape, levels, cols, feedback, importance, descents }.encode(values)
        }
        Form::Table => {
            let levels = Levels16::four_bit();
            GgmlRows { isa, ty, shape, levels, cols, feedback, importance, descents }.encode(values)
        }
    }
}
