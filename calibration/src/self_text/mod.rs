//! Text that a model writes itself, for whoever has none like what it will see: free text from where texts begin, and where it has
//! a chat template, conversations in which it also says what the user says.
//!
//! Tokens are drawn at temperature 1 with no cut: the model's own distribution is what its quantized file is to keep. Some texts are
//! written at once. Each has seeds of its own and runs by the exact engine in f32, so it depends on the model and its number only,
//! not on the processor, on threads or on how many texts there are.
//!
//! | File | Duty |
//! |---|---|
//! | `writer` | a model that writes |
//! | `turns` | what a chat template puts around turns |

mod turns;
mod writer;

pub use writer::{SELF_SEED, SelfRound, SelfWriter};
