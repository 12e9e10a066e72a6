//! Weights that stay on the disk: read, checked and decompressed whenever they are used.
//!
//! | File | Duty |
//! |---|---|
//! | `part`, `schedule` | where pieces of weights are in the file, and in which order they are needed |
//! | `disk`, `chunk_reader` | bytes of the file, checked and decompressed |
//! | `pipeline` | the thread that reads ahead what every token needs |
//! | `piece_cache` | what only some tokens need, read when they do |
//! | `matrix`, `embedding` | what the decoder sees of it |

pub(crate) mod chunk_reader;
pub(crate) mod disk;
pub(crate) mod embedding;
pub(crate) mod matrix;
pub(crate) mod part;
pub(crate) mod piece_cache;
pub(crate) mod pipeline;
pub(crate) mod schedule;

pub use disk::Io;
pub use embedding::EmbeddingRows;
pub use matrix::{MatrixForm, StreamedMatrix};
