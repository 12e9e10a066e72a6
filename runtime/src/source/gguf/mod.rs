//! Models in GGUF files, as llama.cpp and its relatives write them
//! ([specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)).

mod config;
mod name_groups;
mod names;
mod naming;
mod rows;
mod source;
mod store;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::gguf::{GgufFile, GgufShard, GgufTensor, Metadata, PerLayer, is_gguf};
pub use naming::{GgufForm, GgufName, GgufNames};
pub use source::{GgufSource, open_gguf};
pub(in crate::source) use store::Store;
