//! Runs models that are larger than memory: weights that fit a budget are kept, the rest is read from the file for every token, while
//! the pieces before it are computed.
//!
//! | File | Duty |
//! |---|---|
//! | `source` | a QSF file of which only the outline was read |
//! | `budget`, `plan` | what a budget is spent on |
//! | `arena` | the memory of kept weights and buffers |
//! | `part`, `schedule` | where pieces of weights are in the file, and in which order they are needed |
//! | `disk`, `chunk_reader` | bytes of the file, checked and decompressed |
//! | `pipeline` | the thread that reads ahead what every token needs |
//! | `piece_cache` | what only some tokens need, read when they do |
//! | `matrix`, `embedding` | what the decoder sees of it |
//! | `load` | a model by a plan |

mod arena;
mod budget;
mod chunk_reader;
mod disk;
mod embedding;
mod load;
mod matrix;
mod part;
mod piece_cache;
mod pipeline;
mod plan;
mod schedule;
mod source;

pub use arena::{Arena, Region};
pub use budget::RamBudget;
pub use disk::Io;
pub use embedding::EmbeddingRows;
pub use load::{StreamStatus, StreamedModel};
pub use matrix::{MatrixForm, StreamedMatrix};
pub use plan::{MemoryPlan, Need};
pub use source::StreamSource;
