//! Quality of a model on a text: perplexity, and distance from another model; and agreement with logits of another
//! implementation.
//!
//! Convention of llama.cpp's perplexity tool, so that figures can be compared: the text is cut into chunks of `ctx` tokens
//! without overlap; in each, the positions from `ctx / 2` to `ctx - 2` predict their successors. Where the tokenizer adds a
//! first token, it replaces the first token of each chunk.

//!
//! A part of the chunks can be evaluated alone ([`evaluate_part`]), by another machine, and parts are joined by their files
//! ([`join`]). The log-probabilities of a base can be saved ([`BaseWriter`]) for the evaluations of many models ([`SavedBase`]).

mod beside;
mod demand;
mod divergence;
mod golden;
mod options;
mod part_file;
mod perplexity;
mod row;
mod saved_base;
mod side;
mod sums;

pub use beside::Reference;
pub use demand::{Demand, demand};
pub use divergence::{DeltaP, Divergence, KlDivergence};
pub use golden::{GoldenExpectation, GoldenReport, compare_golden};
pub use options::EvalOptions;
pub use part_file::{EvaluationPart, Mark, join};
pub use perplexity::{check_tokens, evaluate, evaluate_part};
pub use row::divergence;
pub(crate) use row::{argmax, nll};
pub use saved_base::{BaseFacts, BaseFile, BaseWriter, SavedBase};
pub use sums::{Decoding, EvaluatedChunks, Evaluation};
