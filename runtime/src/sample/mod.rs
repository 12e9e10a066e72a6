//! Chooses the next token from the logits of a model.

mod candidate;
mod chain;
mod likeliest;
mod options;
mod penalties;
mod rng;

pub use chain::Sampler;
pub use likeliest::{Likeliest, ROUNDED};
pub use options::{MAX_SEED, SamplerOptions, seed_of_text};
pub use penalties::Penalties;
pub use rng::Rng;
