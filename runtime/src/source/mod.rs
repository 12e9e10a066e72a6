//! Where weights come from. One trait, so that a decoder, a converter or an evaluation never asks what kind of file a
//! model is: QSF files, GGUF files and HuggingFace directories all hand out tensors in the type they are stored in.
//!
//! | File | Duty |
//! |---|---|
//! | `weight_source` | the trait |
//! | `open`, `hub_cache` | which kind of source a path is, and which directory is meant |
//! | `qsf`, `gguf`, `huggingface` | the kinds |
//! | `found` | the tensors of a QSF file, parts of matrices put together |
//! | `mapping`, `arrangement`, `transpose` | from tensors as they are stored to those of the model |
//! | `shape` | which tensors a model has, in which shapes |
//! | `expansion` | the same of a compressed file, before it is decompressed |
//! | `text_tokens` | the tokenizer of a source |
//! | `beside` | checks of weights beside something else |
//! | `adapter` | updates of low rank, read beside a model |
//! | `merged` | a source with adapters added |
//! | `replaced` | a source with other values for some tensors |

pub mod adapter;
mod arrangement;
mod beside;
mod expansion;
mod found;
pub mod gguf;
mod hub_cache;
pub(crate) mod huggingface;
mod mapping;
mod merged;
mod open;
mod qsf;
mod replaced;
mod shape;
mod text_tokens;
mod transpose;
mod weight_source;

pub use crate::model_dir::files::find as file_of_directory;
pub use crate::tensor::{ForeignRows, ForeignType, NativeRows, StoredType, Tensor, TensorBytes};
pub use arrangement::{RowOrder, SHARDS};
pub use beside::check_beside;
pub(crate) use found::Found;
pub use hub_cache::{name_of_snapshot, snapshot_of};
pub use huggingface::{HfNames, HuggingFaceSource, configuration_of, configured_model, open_huggingface};
pub use mapping::SavedTensor;
pub use merged::Merged;
pub use open::{is_qsf, open, open_for_answer, refuse_what_is_no_model};
pub use qsf::QsfSource;
pub(crate) use qsf::{has_gate, model_config};
pub use replaced::Replaced;
pub use shape::{check_complete, expected_shape, required_tensors};
pub use text_tokens::tokenizer_of;
pub(crate) use weight_source::quantized_types;
pub use weight_source::{TensorInfo, WeightSource, file_bytes};
