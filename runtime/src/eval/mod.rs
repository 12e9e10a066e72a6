//! Quality of a model on a text: perplexity, and distance from another model; and agreement with logits of another
//! implementation.
//!
//! Convention of llama.cpp's perplexity tool, so that figures can be compared: the text is cut into chunks of `ctx` tokens
//! without overlap; in each, the positions from `ctx / 2` to `ctx - 2` predict their successors. Where the tokenizer adds a
//! first token, it replaces the first token of each chunk.

mod divergence;
mod golden;
mod perplexity;
mod row;

pub use divergence::{DeltaP, Divergence, KlDivergence};
pub use golden::{GoldenExpectation, GoldenReport, compare_golden};
pub use perplexity::{Decoding, EvalOptions, Evaluation, evaluate};
pub use row::divergence;
