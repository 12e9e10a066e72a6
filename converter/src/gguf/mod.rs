//! GGUF files out: what a model is in llama.cpp's words, and the file.
//!
//! | File | Duty |
//! |---|---|
//! | `value` | metadata values and their bytes |
//! | `header` | everything before the values of tensors |
//! | `layout` | which tensors a file has, and what of the model each holds |
//! | `keys` | keys that begin with the name of an architecture |
//! | `model_keys` | the configuration as keys |
//! | `own_keys` | keys that only some architectures have |
//! | `rope_keys` | positions as keys, and the tensors that belong to them |
//! | `tokenizer_keys` | the tokenizer as keys |
//! | `metadata` | all keys of a file |
//! | `arrange` | rows in the order of the file |
//! | `writer` | the file, as it is written |

mod arrange;
mod header;
mod keys;
mod layout;
mod metadata;
mod model_keys;
mod own_keys;
mod rope_keys;
mod tokenizer_keys;
mod value;
mod writer;

pub(crate) use header::{Entry, header, padded};
pub(crate) use layout::{check_plan, head_columns, names_of};
pub(crate) use value::Value;
pub(crate) use writer::{GgufFileOut, GgufRequest, GgufWriter, header_bytes};
