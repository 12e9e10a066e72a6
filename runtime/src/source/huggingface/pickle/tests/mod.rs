//! Tests on files made here, operation by operation, and on one of torch.

mod archives;
mod damage;
mod pickles;
mod real;
mod tensors;
pub(in crate::source::huggingface) mod writers;

use std::path::Path;

use qsf_format::Failure;
use safetensors::Dtype;

use self::writers::{Pickle, Zip};
use super::read;
use super::state_dict::PickledTensor;
use crate::error::Result;

/// Reads a file of these bytes.
fn open(file: &[u8]) -> Result<Vec<PickledTensor>> {
    read(Path::new("pytorch_model.bin"), file)
}

/// Reads a sound archive with this pickle, which can use a storage `0` of 24 bytes.
fn open_pickle(pickle: &Pickle) -> Result<Vec<PickledTensor>> {
    open(&Zip::of_checkpoint(&pickle.0).bytes())
}

/// The message of an error, which must be of the kind.
fn refusal<T: std::fmt::Debug>(result: Result<T>, failure: Failure) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.failure(), failure, "{error}");
    error.to_string()
}

/// Fails unless `message` has every one of `parts`.
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

/// The only tensor of most files here.
fn is_w(tensors: &[PickledTensor], dtype: Dtype, shape: &[usize]) -> bool {
    matches!(tensors, [w] if w.name == "w" && w.dtype == dtype && w.shape == shape)
}
