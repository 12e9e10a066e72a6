//! What a conversion that was stopped goes on from.

pub(crate) mod journal;
pub(crate) mod stream_checkpoint;
pub(crate) mod tensor_cache;

pub use journal::path_of as journal_path;
