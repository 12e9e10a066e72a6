//! From a tensor of the source to its bytes in the file.

pub(crate) mod outliers;
pub(crate) mod rows;
pub(crate) mod stored_tensor;
pub(crate) mod tensor;
