//! The log-probabilities of a base as a file, so that one pass of the base serves for many models.
//!
//! | File | Duty |
//! |---|---|
//! | `codes` | a row of logits as codes of 16 bits |
//! | `facts` | what the file says of the base and the text, in its first line and the JSON behind it |
//! | `layout` | where chunks and rows are |
//! | `reader`, `writer` | the file itself, a few rows at a time |
//!
//! The file is a line (`facts`), and then the chunks. A chunk is the SHA-256 of its tokens (little-endian `u32`) and a CRC32,
//! and then its scored positions. A position is a CRC32, the range of its logits as `f32`, the negative log-likelihood of its
//! true next token as `f64`, and a code (`u16`) for each token of the vocabulary. All numbers are little-endian. Each CRC32
//! covers the number of the chunk or position (`u64`), which is not stored, and what stands behind the CRC32.

mod codes;
mod facts;
mod layout;
mod reader;
mod writer;

pub use facts::{BaseFacts, BaseFile};
pub use reader::SavedBase;
pub use writer::BaseWriter;
