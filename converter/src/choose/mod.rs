//! Types for a size: what each does to each matrix, and whether what was chosen is the best for the model as a whole.

pub(crate) mod refine;
pub(crate) mod survey;
