//! What the whole-system tests share: the real binaries, models to feed them, and the folder of trained models that only a
//! development machine has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod folders;
mod gguf;
mod models;
mod programs;
mod refused;
mod shared;

pub use folders::{Snapshot, leftovers};
pub use gguf::write_sparse_gguf;
pub use models::{
    SafetensorsFile, Size, change_config, demo_model, write_gpt2, write_llama, write_mixtral,
    write_sparse_llama,
};
pub use programs::{Output, Program, has_avx2, program};
pub use refused::refused;
pub use shared::shared;
