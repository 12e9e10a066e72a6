//! What a file says beside its tensors, and how large that will be.
//!
//! | File | Duty |
//! |---|---|
//! | `provenance` | META: where the tensors are from |
//! | `clusters` | CLUS: groups of the vocabulary |
//! | `exits` | EXIT: when the model may be left early |
//! | `evaluation` | EVAL: how good the file is |
//! | `sizes` | bytes of all sections before there are any |

mod clusters;
mod evaluation;
mod exits;
mod provenance;
mod sizes;

pub(crate) use clusters::clusters_of_file;
pub(crate) use evaluation::evaluate_file;
pub use evaluation::{evaluation_record, evaluation_text};
pub(crate) use exits::exits_of_file;
pub(crate) use sizes::{bytes_at_most, bytes_expected, text_bytes};

pub use provenance::{TOOL, hash_files};
pub(crate) use provenance::{unhashed_files, unhashed_provenance};
