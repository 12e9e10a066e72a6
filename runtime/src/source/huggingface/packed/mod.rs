//! Checkpoints that other tools have quantized: a store that shows the tensors in which they pack a matrix (codes, scales,
//! zeros) as the one matrix that they stand for. No matrix is expanded: rows are decoded as they are needed.
//!
//! | File | Duty |
//! |---|---|
//! | `store` | the tensors of a checkpoint, packed matrices among them |
//! | `method` | which tool packed them, by the configuration |
//! | `mlx`, `gptq`, `awq`, `compressed`, `mxfp4`, `bitnet` | what each tool does |
//! | `matrix`, `group_size` | what they have in common |
//! | `packed_part` | one of the tensors that a matrix is packed in, checked |
//! | `rows` | codes, scales and zeros to floats |

mod awq;
mod bitnet;
mod compressed;
mod gptq;
mod group_size;
mod matrix;
mod method;
mod mlx;
mod mxfp4;
mod packed_part;
mod rows;
mod store;

#[cfg(test)]
mod tests;

pub(super) use method::{Method, read_method};
pub(super) use store::PackedStore;
