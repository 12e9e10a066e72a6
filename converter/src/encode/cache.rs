//! What an earlier run has encoded, as far as encoding asks for it.

use std::ops::Range;

use qsf_format::{BlockSize, TensorId};
use qsf_runtime::source::TensorInfo;

use super::encoder::BlockForm;
use super::rows::EncodedRows;
use super::stored_tensor::StoredTensor;
use crate::error::Result;

/// Keeps what is encoded, so that a conversion that is killed need not encode it again.
pub(crate) trait TensorCache: Sync {
    /// Whether it keeps anything.
    fn keeps(&self) -> bool;

    /// The tensor, if it is kept.
    ///
    /// # Errors
    /// When what is kept cannot be read.
    fn tensor(&self, id: TensorId) -> Result<Option<StoredTensor>>;

    /// Keeps a tensor, while there is room for it.
    ///
    /// # Errors
    /// When it cannot be written.
    fn keep_tensor(&self, tensor: &StoredTensor) -> Result<()>;

    /// The rows, if they are kept.
    ///
    /// # Errors
    /// When what is kept cannot be read.
    fn rows(&self, run: &TensorRun<'_>) -> Result<Option<EncodedRows>>;

    /// Keeps rows of which nothing is stored apart, while there is room for them.
    ///
    /// # Errors
    /// When they cannot be written.
    fn keep_rows(&self, run: &TensorRun<'_>, encoded: &EncodedRows) -> Result<()>;
}

/// Some rows of a tensor, and what they are encoded as.
pub(crate) struct TensorRun<'a> {
    pub info: &'a TensorInfo,
    pub form: BlockForm,
    pub block: BlockSize,
    pub rows: Range<usize>,
}

/// Keeps nothing.
pub(crate) struct NoCache;

impl TensorCache for NoCache {
    fn keeps(&self) -> bool {
        false
    }

    fn tensor(&self, _id: TensorId) -> Result<Option<StoredTensor>> {
        Ok(None)
    }

    fn keep_tensor(&self, _tensor: &StoredTensor) -> Result<()> {
        Ok(())
    }

    fn rows(&self, _run: &TensorRun<'_>) -> Result<Option<EncodedRows>> {
        Ok(None)
    }

    fn keep_rows(&self, _run: &TensorRun<'_>, _encoded: &EncodedRows) -> Result<()> {
        Ok(())
    }
}
