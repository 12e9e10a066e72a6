//! A model that a caller keeps, for other languages: Python, C.
//!
//! | File | Duty |
//! |---|---|
//! | `open` | options by name, and what they open |
//! | `device` | which processor computes what |
//! | `text`, `together` | text that continues a prompt; texts of many at once |
//! | `classify` | what comes behind each of many prompts, in one pass |
//! | `score` | how likely given continuations are |
//! | `attention` | where it looks |
//! | `outputs` | logits and hidden states of given tokens |

mod attention;
mod classify;
mod device;
mod open;
mod outputs;
mod score;
mod text;
mod together;

pub use open::{KeptModel, KeptModelArgs};
pub use outputs::Pooling;
pub use text::{Generated, TextRequest};
pub use together::{BatchRequest, BatchText, DEFAULT_SEQUENCES};
