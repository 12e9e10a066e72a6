//! A tensor as it is stored, and what META says of it.

use std::sync::Arc;

use qsf_format::{BlockSize, CodeTables, EncodedTensor, Outliers, TensorId, TensorRecord};
use qsf_runtime::source::Tensor;

use crate::error::{ConvertError, Result};

/// A tensor ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct StoredTensor {
    pub id: TensorId,
    pub encoded: EncodedTensor,
    /// What is stored apart from the blocks: no rows where nothing is.
    pub outliers: Outliers,
    pub record: TensorRecord,
}

impl StoredTensor {
    /// The tensor in memory, as a reader of the file will have it.
    ///
    /// # Errors
    /// When it is from a journal and has not the bytes of its shape.
    pub fn tensor(&self, block: BlockSize, tables: &Arc<CodeTables>) -> Result<Tensor> {
        let EncodedTensor { rows, cols, quant, layout, ref data, .. } = self.encoded;
        let bytes = data.clone().into();
        let tensor = Tensor::with_layout(rows as usize, cols as usize, quant, block, layout, bytes);
        let broken = |_| ConvertError::BrokenJournal { what: self.id.to_string() };
        let tensor = tensor.map_err(broken)?.with_tables(tables);
        if self.outliers.is_empty() {
            return Ok(tensor);
        }
        if self.outliers.rows() != tensor.rows() {
            return Err(broken(None));
        }
        Ok(tensor.with_outliers(Arc::new(self.outliers.clone()), 0))
    }
}
