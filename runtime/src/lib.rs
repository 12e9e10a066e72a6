//! Reads QSF files and source models and runs them.
//!
//! - [`source::open`] opens a QSF file or a HuggingFace directory behind one trait, weights in their stored type.
//! - [`Model::load`] and [`Decoder`] run it: one decoder, configured by [`ModelConfig`](qsf_format::ModelConfig).
//! - [`generate`], [`mod@bench`], [`eval`] and [`compare`] are what the binaries do with it.

mod arena;
pub mod bench;
pub mod chat_template;
pub mod compare;
pub mod conversation;
pub mod cpu;
mod decoder;
mod error;
pub mod eval;
pub mod file_hash;
pub mod fingerprint;
pub mod generate;
pub mod ggml;
pub mod gguf;
#[cfg(feature = "gpu")]
pub mod gpu;
mod guard;
pub mod linear;
mod mapped;
pub mod memory;
mod model_dir;
pub mod on_disk;
mod part;
pub mod progress;
mod runner;
pub mod sample;
pub mod source;
pub mod stream;
pub mod tensor;
pub mod text_file;
pub mod tokenizer;
mod weights;

pub use chat_template::{ChatTemplate, Message};
pub use decoder::{
    Activations, ClusterRanking, ClusteredHead, Decoder, DecoderState, InputObserver, KvCache, KvKeep,
    KvOptions, KvPolicy, LEAST_WIDE_TOKENS, LayerCount, LayerRunner, LinearInput, Profile, Section,
    StateBytes, skipped_layers,
};
pub use error::{Result, RuntimeError, megabytes};
pub use part::WorkPart;
pub use runner::{Runner, Sequence};
pub use tokenizer::{TokenStream, Tokenizer};
pub use weights::{Embedding, FeedForward, LayerWeights, Linear, Model, Norm, Weight};
