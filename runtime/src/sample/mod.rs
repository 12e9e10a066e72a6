//! Chooses the next token from the logits of a model.

mod chain;
mod likeliest;
mod options;
mod rng;

pub use chain::Sampler;
pub use likeliest::{Likeliest, ROUNDED};
pub use options::SamplerOptions;
pub use rng::Rng;
