//! What a file says of itself beside its tensors.

pub(crate) mod clusters;
pub(crate) mod evaluation;
pub(crate) mod exits;
pub(crate) mod provenance;

pub use clusters::ClusterOptions;
pub use evaluation::EvaluationText;
pub use provenance::{TOOL, hash_files};
