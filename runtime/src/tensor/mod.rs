//! Tensors in memory, in the type they are stored in.
//!
//! | File | Duty |
//! |---|---|
//! | `matrix` | a matrix (or a vector: one row), and rows of types that only sources have |
//! | `native_rows` | rows in a type and a layout of the file format: what kernels multiply with |
//! | `row_factors` | tensors times factors, as they can be stored |
//! | `split_rows` | a matrix whose rows are in several types |
//! | `bytes` | where the bytes are: in a mapped file, in memory of their own, in an arena |
//! | `stored_type` | the types that values can be stored in |
//! | `gather` | rows in another order |

mod bytes;
mod gather;
mod matrix;
mod native_rows;
mod row_factors;
mod split_rows;
mod stored_type;

pub use bytes::TensorBytes;
pub use matrix::{ForeignRows, SplitRows, Tensor};
pub use native_rows::NativeRows;
pub use row_factors::{float_bytes, multiply_row_scales};
pub use stored_type::{ForeignType, StoredType, TERNARY};
