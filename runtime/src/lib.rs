//! Reads QSF files and source models and runs them.
//!
//! - [`source::open`] opens a QSF file, a GGUF file or a HuggingFace directory behind one trait, weights in their stored type.
//! - [`Model::load`] and [`Decoder`] run it: one decoder, configured by [`ModelConfig`](qsf_format::ModelConfig).
//! - [`generate`], [`mod@bench`], [`eval`] and [`compare`] are what the binaries do with it.
//!
//! A model reads three tokens, and says which it expects next:
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use qsf_runtime::cpu::Cpu;
//! use qsf_runtime::{Decoder, Model, source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A directory as hubs hand it out; the path of a QSF or GGUF file would do as well.
//! let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden/llama");
//! let source = source::open(&path)?;
//! let decoder = Decoder::new(Arc::new(Model::load(&*source)?), Cpu::from_env()?, None);
//!
//! // One sequence of up to 16 tokens, of which up to 4 come in one step.
//! let mut state = decoder.state(16, 4)?;
//! decoder.forward(&mut state, &[5, 7, 11])?;
//! let mut logits = vec![0.0; source.config().vocab as usize];
//! decoder.logits(&mut state, 2..3, &mut logits)?;
//! let next = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
//! println!("token {next:?} comes next");
//! # assert!(logits.iter().all(|logit| logit.is_finite()));
//! # Ok(())
//! # }
//! ```

mod arena;
pub mod attention;
pub mod bench;
pub mod chat_template;
pub mod compare;
pub mod content;
pub mod conversation;
mod decoder;
pub mod disk;
mod error;
pub mod eval;
pub mod file_hash;
pub mod file_identity;
pub mod fingerprint;
pub mod generate;
pub mod ggml;
pub mod gguf;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod grouped;
mod guard;
mod huge_pages;
pub mod linear;
mod mapped;
pub mod memory;
mod model_dir;
mod normal;
pub mod on_disk;
pub mod parquet;
mod part;
pub mod progress;
mod runner;
pub mod sample;
pub mod score;
pub mod session;
pub mod source;
pub mod stop_text;
pub mod stream;
pub mod tasks;
pub mod tensor;
pub mod text_file;
pub mod tokenizer;
mod weights;

pub use chat_template::{ChatTemplate, Date, DateError, Message, RawMessages};
pub use qsf_cpu as cpu;

pub use decoder::{
    Activations, AttentionLook, ClusterRanking, ClusteredHead, Decoder, DecoderState, InputObserver, KvCache,
    KvKeep, KvOptions, KvPolicy, LEAST_WIDE_TOKENS, LayerCount, LayerRunner, LinearInput, Profile, Rotation,
    Routing, Section, StateBytes, alibi_slopes, query_factor, skipped_layers,
};
pub use error::{Result, RuntimeError, megabytes};
pub use huge_pages::HugePages;
pub use part::WorkPart;
pub use runner::{Runner, Sequence};
pub use tokenizer::{TokenStream, Tokenizer};
pub use weights::{
    AttentionWeights, Embedding, FeedForward, LayerWeights, Linear, Mixer, Model, Norm, RecurrentWeights,
    Weight,
};
