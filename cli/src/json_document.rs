//! What is the same in all that `--json` prints.

pub use qsf_inspection::json_document::{SCHEMA, document};
