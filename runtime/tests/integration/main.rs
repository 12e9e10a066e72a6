//! The runtime from outside: what a decoder, its cache and its templates promise. One program for all of it, since each that is
//! linked costs seconds; what counts memory runs in processes of its own (see `memory`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod random_model;

mod chat_templates;
mod clustered_head;
mod decoder;
mod early_exit;
#[cfg(feature = "gpu")]
mod gpu;
#[cfg(feature = "gpu")]
mod gpu_attention;
#[cfg(feature = "gpu")]
mod gpu_experts;
#[cfg(feature = "gpu")]
mod gpu_limits;
#[cfg(feature = "gpu")]
mod gpu_parts;
#[cfg(feature = "gpu")]
mod gpu_recurrent;
#[cfg(feature = "gpu-texts")]
mod gpu_texts;
mod kv_cache;
mod kv_keep;
mod layer_parts;
mod memory;
mod recurrent;
mod score;
mod session;
mod skipped_layers;
mod steps;
mod streams;
