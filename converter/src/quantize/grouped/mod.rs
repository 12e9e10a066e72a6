//! Floats into whole numbers that share a scale in groups of columns, as [`GroupType::decode_row`] reads them: scales by search,
//! codes by feedback and descent, as for all other types.
//!
//! | File | Duty |
//! |---|---|
//! | `coder` | a type under feedback |
//! | `rows` | whole rows, and their bytes |

mod coder;
mod rows;
#[cfg(test)]
mod tests;

use qsf_runtime::cpu::Isa;
use qsf_runtime::grouped::GroupType;

use self::rows::GroupRows;
use super::feedback::Feedback;
use super::half_scale::ScaleOverflow;
use super::matrix::Effort;

/// What a matrix is to become.
#[derive(Debug, Clone, Copy)]
pub struct GroupMatrix {
    /// Instruction set; the bytes do not depend on it.
    pub isa: Isa,
    /// Stored type.
    pub ty: GroupType,
    /// Values of a row, whole groups.
    pub cols: usize,
}

/// Whole rows of finite values as rows of groups. With `feedback` the mean square error of the matrix's outputs is made small, and
/// `importance` is not looked at; without, the squares of the errors of the weights, weighted by `importance`.
///
/// # Errors
/// When a scale leaves the range of its type.
///
/// # Panics
/// When lengths do not fit `cols`, or `cols` is no whole number of groups.
pub fn quantize_groups(
    matrix: &GroupMatrix,
    values: &[f32],
    feedback: Option<&Feedback>,
    importance: Option<&[f32]>,
    effort: Effort,
) -> Result<Vec<u8>, ScaleOverflow> {
    let GroupMatrix { isa, ty, cols } = *matrix;
    let whole = ty.suits(cols) && values.len().is_multiple_of(cols);
    assert!(whole, "{} values in rows of {cols} as {ty}", values.len());
    assert!(importance.is_none_or(|w| w.len() == cols), "one importance per column");
    assert!(feedback.is_none_or(|feedback| feedback.cols() == cols), "feedback for {cols} columns");
    let even = vec![1.0; cols];
    let importance = importance.unwrap_or(&even);
    GroupRows { isa, ty, cols, feedback, importance, descents: effort.descents }.encode(values)
}
