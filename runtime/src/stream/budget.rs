//! The memory that a user grants, and what is taken already.

/// Most anonymous memory (what is not a page of a file) of the process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RamBudget(pub u64);
