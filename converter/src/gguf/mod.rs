//! GGUF files out: what a model is in llama.cpp's words, and the file.
//!
//! | File | Duty |
//! |---|---|
//! | `value` | metadata values and their bytes |
//! | `header` | everything before the values of tensors |
//! | `headers` | the headers of all files of a model |
//! | `layout` | which tensors a file has, and what of the model each holds |
//! | `keys` | keys that begin with the name of an architecture |
//! | `model_keys` | the configuration as keys |
//! | `own_keys` | keys that only some architectures have |
//! | `rope_keys` | positions as keys, and the tensors that belong to them |
//! | `vocabulary` | the tokens of a `tokenizer.json`, and what each is |
//! | `stored_pieces` | scores and types that a `tokenizer.model` has |
//! | `tokenizer_keys` | the tokenizer as keys |
//! | `metadata` | all keys of a file |
//! | `arrange` | rows in the order of the file |
//! | `split` | which tensors are in which file, where there are several |
//! | `said` | whether a header says what the source says |
//! | `part_file` | one file, as it is filled |
//! | `target` | the names that files have for now and in the end |
//! | `writer` | the file, or the files, as they are written |

mod arrange;
mod header;
mod headers;
mod keys;
mod layout;
mod metadata;
mod model_keys;
mod own_keys;
mod part_file;
mod rope_keys;
mod said;
mod split;
mod stored_pieces;
mod target;
mod tokenizer_keys;
mod value;
mod vocabulary;
mod writer;

pub(crate) use header::{Entry, header, padded};
pub(crate) use headers::{count_files, header_bytes};
pub(crate) use layout::{check_plan, head_columns, names_of};
pub(crate) use split::{files_there, more_headers_at_most};
pub(crate) use value::Value;
pub(crate) use writer::{GgufFileOut, GgufRequest, GgufWriter};
