//! What every way of packing makes of its tensors.

use std::fmt::Debug;

use crate::error::Result;
use crate::source::mapping::TensorStore;
use crate::tensor::{StoredType, Tensor};

/// A matrix packed in several tensors, whose types and shapes have been checked against one another.
pub(in crate::source::huggingface) trait PackedMatrix:
    Debug + Send + Sync
{
    /// Dimensions, slowest first: outputs x inputs, before them experts.
    fn shape(&self) -> &[usize];

    /// How its values are stored.
    fn stored_type(&self) -> StoredType;

    /// The names of the tensors that it is packed in, that of its codes first.
    fn parts(&self) -> Vec<&str>;

    /// Checks what decides whether it can be loaded, beyond types and shapes.
    fn check(&self, store: &dyn TensorStore) -> Result<()> {
        let _ = store;
        Ok(())
    }

    /// The matrix, of rows that are decoded one at a time.
    fn load(&self, store: &dyn TensorStore) -> Result<Tensor>;
}
