//! The container of GGUF files: metadata and where tensors are
//! ([specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)). What a model makes of it is in
//! [`source::gguf`](crate::source::gguf).
//!
//! | File | Duty |
//! |---|---|
//! | `cursor` | numbers and strings of a file, one after the other, within bounds |
//! | `metadata` | keys and typed values |
//! | `descriptor` | name, type, shape and place of each tensor |
//! | `split` | models in several files |
//! | `file` | an open file with all its parts |

mod cursor;
mod descriptor;
mod file;
mod metadata;
pub mod split;

pub use descriptor::GgufTensor;
pub use file::{GgufFile, GgufShard, is_gguf};
pub use metadata::{Metadata, PerLayer};
