//! HuggingFace model directories: `config.json`, weights of safetensors or torch, `tokenizer.json`.
//!
//! | File | Duty |
//! |---|---|
//! | `source`, `configured` | a directory as a source of weights; what a configuration alone says of a model |
//! | `config`, `architectures`, `recognize` | which architecture, and what its fields mean |
//! | `naming` | what tensors are called, for whoever writes a directory |
//! | `names` | what stands before the names of tensors, and which of them are of the language model |
//! | `shards`, `safetensors_header`, `plain`, `pickle` | files of weights, of safetensors and of torch |
//! | `packed`, `float8` | tensors that belong together, as one |
//! | `tied_head`, `chat_template` | whether the head is a copy of the embedding; the chat template |

mod architectures;
mod chat_template;
mod config;
mod configured;
mod float8;
mod names;
mod naming;
mod packed;
mod pickle;
mod plain;
mod recognize;
mod safetensors_header;
mod shards;
mod source;
mod tied_head;

#[cfg(test)]
mod tests;

pub use configured::{configuration_of, configured_model};
pub(in crate::source) use names::is_of_language_part;
pub use naming::HfNames;
pub(in crate::source) use shards::Shards;
pub use source::{HuggingFaceSource, open_huggingface};
