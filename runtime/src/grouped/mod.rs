//! Whole numbers that share a scale in groups of columns: the types of model directories that compressed-tensors and MLX
//! write.
//!
//! | File | Duty |
//! |---|---|
//! | `group_type` | the types: bits, groups, what a code stands for |
//! | `codes` | codes out of words and into them |
//! | `rows` | rows as floats |

mod codes;
mod group_type;
mod rows;

pub use codes::{pack_codes, unpack_codes};
pub use group_type::{GroupType, GroupZero};
