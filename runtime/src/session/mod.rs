//! Sessions: tokens in, logits out, for one sequence or for several that go through the model together.
//!
//! A sequence can be taken back, saved to bytes and restored, in another process too: it goes on with the same bits. Sessions run on
//! the processor. A model within a RAM budget has room for one sequence.
//!
//! | File | Duty |
//! |---|---|
//! | `sequences` | the session itself |
//! | `generated` | an iterator of generated tokens |
//! | `seen` | what a sequence has seen |
//! | `saved` | the bytes of a sequence |
//! | `together` | many prompts, packed into steps |

mod generated;
mod saved;
mod seen;
mod sequences;
mod together;

pub use generated::GeneratedTokens;
pub use sequences::{Session, SessionOptions};
pub use together::{TextAsked, TextListener, TogetherOptions, generate_together};
