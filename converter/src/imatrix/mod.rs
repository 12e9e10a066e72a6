//! Importance matrices of llama.cpp: the mean square of every column of what matrices read, by the names that GGUF files have for
//! them. They are read where no text is at hand, and written for llama-quantize.
//!
//! | File | Duty |
//! |---|---|
//! | `entries` | which entries a model needs, and the statistics that they are |
//! | `gguf_form` | files of the form of today, GGUF |
//! | `dat_form` | files of the old form |
//! | `open` | which form a file has |
//! | `writer` | statistics as such a file |

mod dat_form;
mod entries;
mod gguf_form;
mod open;
mod writer;

pub use entries::{Entry, Expected};
pub(crate) use open::ModelImatrix;
pub use open::{is_imatrix, read_entries};
pub(crate) use writer::ImatrixWriter;
