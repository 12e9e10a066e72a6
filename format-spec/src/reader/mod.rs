//! The checking reader: nothing of a file is used before its checksum and its bounds are checked (SPEC.md section 10).
//!
//! | File | Reads |
//! |---|---|
//! | `file` | header, layer index, directory, the tables of learned types |
//! | `sections` | sections that are read whole: META, texts, clusters, exits, adapters, outliers |
//! | `tensors` | layers, the final section, learned positions |
//! | `embedding` | the token embedding |
//! | `tensor_group` | tensors and the bytes that they are in |

mod embedding;
mod file;
mod sections;
mod tensor_group;
mod tensors;

pub use embedding::EmbeddingInfo;
pub use file::QsfFile;
pub use sections::MAX_SECTION_BYTES;
pub(crate) use sections::most_raw_bytes;
pub use tensor_group::TensorGroup;
pub(crate) use tensors::layer_place;
