//! Text through a model into statistics of the inputs of its matrices, which tell a quantizer which errors matter.
//!
//! The error of a matrix W with inputs x is `sum over rows |(W - Q) x|^2`, which is `trace (W - Q) M (W - Q)^T` with M the mean
//! of `x x^T` (the Hessian of GPTQ, arXiv 2210.17323). Its diagonal alone, the mean square of each column, is the importance
//! of a column for a quantizer that takes columns as uncorrelated.
//!
//! The model is run at full precision and layer by layer: the hidden states of all tokens are kept, and weights and
//! statistics of one layer at a time ([`collect`], [`for_each_layer`]). [`run_streams`] runs a second stream through the layers
//! as they are quantized, so that each matrix is fitted to the inputs that it will really get. [`vocab_clusters`] groups the
//! rows of the head, and counts on a text how well few of the groups stand for all. [`early_exits`]
//! learns from a text when a token is decided before the last layer. [`gradient`] is the way back: what every tensor does to a loss.
//!
//! Which columns of a matrix matter, by the inputs that a text gives it:
//!
//! ```
//! use std::path::Path;
//!
//! use qsf_calibration::{Detail, collect};
//! use qsf_format::{TensorId, TensorKind};
//! use qsf_runtime::cpu::Cpu;
//! use qsf_runtime::progress::{Cancel, Unwatched};
//! use qsf_runtime::source;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden/llama");
//! let model = source::open(&path)?;
//! let tokens: Vec<u32> = (0..40).map(|i| i * 7 % model.config().vocab).collect();
//! let found = collect(&*model, &Cpu::from_env()?, &tokens, Detail::Diagonal, &Unwatched, &Cancel::default())?;
//!
//! // The weight of each column in the error of a quantizer.
//! let importance = found.importance(TensorId::of_layer(0, TensorKind::FfnDown), model.config().tied_head);
//! assert_eq!(importance.unwrap_or_default().len(), model.config().ffn as usize);
//! # Ok(())
//! # }
//! ```

mod clusters;
mod collect;
mod containment;
mod document;
mod exits;
pub mod gradient;
mod head_moments;
mod importance;
mod layer_stats;
mod logistic;
mod moments;
mod probe;
mod row_stats;
mod self_text;
mod spread;
mod stage;
mod statistics;
mod stats_file;
mod stream;
mod streams;
mod text;
pub mod tuning;

pub use clusters::{RowClusters, cluster_rows};
pub use collect::{collect, for_each_layer};
pub use containment::{measured_probes, vocab_clusters};
pub use document::{Conversation, Document, parse_line};
pub use exits::{early_exits, exit_layers};
pub use head_moments::HeadMoments;
pub use importance::{importance_tokens, layer_importance};
pub use layer_stats::LayerStats;
pub use moments::{Channels, CrossMoment, Detail, Moments};
pub use probe::{Probe, ProbeText};
pub use row_stats::{MatrixSummary, RowStats, matrix_summaries, row_stats};
pub use self_text::{SELF_SEED, SelfRound, SelfWriter};
pub use spread::{set_aside, spread};
pub use stage::Stage;
pub use statistics::Statistics;
pub use stats_file::{
    InputSummary, LayerSummary, MergedStats, StatsHeader, StatsReader, StatsWriter, TextMark,
};
pub use streams::{LayerQuantizer, Step, run_streams};
pub use text::{CalibrationText, Renderer, TextPart, TextTokens, tokenize, tokens_of_part};
