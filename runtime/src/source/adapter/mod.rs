//! Adapters of low rank (LoRA, arXiv 2106.09685): what a training added to some matrices of a model, in files of their own.
//!
//! | File | Duty |
//! |---|---|
//! | `open` | an adapter, whatever kind of file it is |
//! | `peft`, `peft_config` | directories of PEFT |
//! | `gguf` | files of llama.cpp |
//! | `embedded` | those in the file of the model |
//! | `pairs` | from pairs of tensors to updates of the model's matrices |
//! | `update` | what is added to one of these |

mod embedded;
mod gguf;
mod open;
mod pairs;
mod peft;
mod peft_config;
#[cfg(test)]
mod tests;
mod update;

pub use open::Adapter;
pub use update::Update;
