//! How many inputs have a scale in common.

/// Inputs that have a scale in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum GroupSize {
    /// All.
    All,
    /// So many in turn; not 0.
    Inputs(usize),
}

impl GroupSize {
    /// Inputs of a group of a matrix with so many inputs; not 0 where that is not.
    pub fn of(self, inputs: usize) -> usize {
        match self {
            GroupSize::All => inputs,
            GroupSize::Inputs(size) => size,
        }
    }
}
