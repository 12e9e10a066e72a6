//! Quality of a model on a text: perplexity, and distance from another model; and agreement with logits of another
//! implementation.
//!
//! Convention of llama.cpp's perplexity tool, so that figures can be compared: the text is cut into chunks of `ctx` tokens
//! without overlap; in each, the positions from `ctx / 2` to `ctx - 2` predict their successors. Where the tokenizer adds a
//! first token, it replaces the first token of each chunk.

//!
//! A part of the chunks can be evaluated alone ([`evaluate_part`]), by another machine, and parts are joined by their files
//! ([`join`]).

mod demand;
mod divergence;
mod golden;
mod part_file;
mod perplexity;
mod row;
mod sums;

pub use demand::{Demand, demand};
pub use divergence::{DeltaP, Divergence, KlDivergence};
pub use golden::{GoldenExpectation, GoldenReport, compare_golden};
pub use part_file::{EvaluationPart, Mark, join};
pub use perplexity::{EvalOptions, check_tokens, evaluate, evaluate_part};
pub use row::divergence;
pub use sums::{Decoding, EvaluatedChunks, Evaluation};
