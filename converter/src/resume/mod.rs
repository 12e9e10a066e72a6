//! What a conversion that was stopped goes on from.
//!
//! | File | Duty |
//! |---|---|
//! | `fingerprint` | which conversion it is of |
//! | `stream_checkpoint` | where the streams of the calibration text stand |
//! | `journal` | records of what is done, by name |
//! | `tensor_bytes` | tensors as records |
//! | `tensor_cache` | tensors of a conversion that fits them to nothing |

mod fingerprint;
mod journal;
mod stream_checkpoint;
mod tensor_bytes;
mod tensor_cache;

pub(crate) use fingerprint::Fingerprint;
pub(crate) use journal::{Journal, NoRecords, Records};
pub(crate) use tensor_bytes::{from_bytes, read_number, to_bytes};
pub(crate) use tensor_cache::TensorJournal;

pub use journal::journal_path;
