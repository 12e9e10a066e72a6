//! The streaming writer: one pass from front to back into `OUT.partial`, verified, then fsync and rename. A crash, a full
//! disk, Ctrl-C or a caller's contradiction never leaves something under the final name, nor costs an older file its place.
//!
//! | File | Writes |
//! |---|---|
//! | `file` | bytes, padding and sections of a file that is begun |
//! | `embedding` | the token embedding |
//! | `layers` | layers |
//! | `tensors` | the final section, learned positions, outliers |
//! | `complete` | the other sections, index, directory and header; what is appended; the file's name |
//! | `append` | a file that is there, with another evaluation |

mod append;
mod complete;
mod embedding;
mod file;
mod layers;
mod tensors;

pub use append::{store_adapters, store_evaluation};
pub use complete::{CompleteFile, stored_section_bytes};
pub use file::{QsfWriter, WriterOptions};
pub use layers::EncodedTensor;
