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
//! | `row_feedback` | the same of gradients at outputs: rows that make up for rows |
//! | `coder`, `group` | feedback and descent for any block type, 16 rows at once |
//! | `lane_groups` | all rows, 16 at once |
//! | `plain_rows` | plain block types under feedback |
//! | `learned`, `levels`, `grid_rows` | types with a grid |
//! | `trellis` | trellis types |
//! | `ggml` | block types of ggml, for GGUF files |
//! | `grouped` | whole numbers with a scale for a group, for directories of compressed-tensors and MLX |
//! | `learn` | grids from weights |
//! | `upstream` | weights that make up for errors before them |
//! | `floats` | types without blocks |
//! | `weights`, `finite` | weights of columns made ready for a search; where a tensor is not finite |
//! | `block`, `vectors`, `half_scale`, `pack` | what searches share: a block, 16 lanes, scales in binary16, codes into bits |

mod affine;
mod block;
mod by_type;
mod coder;
mod eight_bit;
mod feedback;
mod finite;
mod floats;
mod ggml;
mod grid_rows;
mod group;
mod grouped;
mod half_scale;
mod lane_groups;
mod learn;
mod learned;
mod levels;
mod linear_algebra;
mod matrix;
mod pack;
mod plain_rows;
mod row_feedback;
mod rows;
mod strips;
mod trellis;
mod two_level;
mod upstream;
mod vectors;
mod weights;

#[cfg(test)]
mod tests;

pub use feedback::{Feedback, MomentError};
pub use finite::first_non_finite;
pub use ggml::{GgmlMatrix, quantize_ggml};
pub use grouped::{GroupMatrix, quantize_groups};
pub use half_scale::ScaleOverflow;
pub use learn::{Sample, learn_tables};
pub use matrix::{Effort, Matrix, quantize_matrix, quantize_rows};
pub use row_feedback::RowFeedback;
pub use upstream::Correction;
