//! What an adapter adds to one matrix.

use qsf_format::TensorId;

use crate::linear::LowRank;

/// What is added to a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The matrix.
    pub id: TensorId,
    /// Which of its experts, where each has updates of its own.
    pub expert: Option<usize>,
    /// The name of the module, for messages.
    pub module: String,
    /// What is added, all scales included.
    pub low_rank: LowRank,
}
