//! Models in GGUF files, as llama.cpp and its relatives write them
//! ([specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)).

mod config;
mod cursor;
mod descriptor;
mod file;
mod metadata;
mod names;
mod rows;
mod source;
mod split;
mod store;
#[cfg(test)]
pub(crate) mod tests;

pub use descriptor::GgufTensor;
pub use file::{GgufFile, GgufShard, is_gguf};
pub use metadata::{Metadata, PerLayer};
pub use source::{GgufSource, open_gguf};
