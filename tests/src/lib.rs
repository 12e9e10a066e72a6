//! What the whole-system tests share: the real binaries, models to feed them, and the folder of trained models that only a
//! development machine has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
mod data;
mod folders;
pub mod forged;
mod gguf;
mod json_schema;
mod models;
#[cfg(test)]
mod module_order;
pub mod mutate;
mod programs;
mod refused;
pub mod reseal;
#[cfg(target_os = "linux")]
mod terminal;

pub use adapters::demo_adapter;
pub use data::{CALIBRATION, TEXT, golden, shared};
pub use folders::{Snapshot, leftovers};
pub use gguf::write_sparse_gguf;
pub use json_schema::JsonSchemas;
pub use models::{
    SafetensorsFile, Size, change_config, demo_model, small_model, write_gpt2, write_llama, write_mixtral,
    write_sparse_llama,
};
pub use programs::{Output, Program, has_avx2, program, program_path, script};
pub use refused::refused;
#[cfg(target_os = "linux")]
pub use terminal::Terminal;
