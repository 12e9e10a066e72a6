//! Fitting matrices to what they read: the text, what is measured on it, and the conversions that go along it.
//!
//! | File | Duty |
//! |---|---|
//! | `text` | from files to the tokens of a calibration text |
//! | `written`, `parts` | text that the model writes; what each part of a text gave |
//! | `statistics` | statistics of the unchanged model, from the text or from files |
//! | `collect` | such files, made without a conversion |
//! | `fits` | what each matrix is fitted to, from statistics |
//! | `output_gradients`, `packed_moment` | gradients at what matrices give, measured once, and how they are kept |
//! | `embedding` | what rows of the token embedding are fitted to |
//! | `importance` | how much each layer matters, where no types are chosen |
//! | `along_model` | layer by layer, each fitted to what those before it leave |
//! | `passes` | all tensors of a file, in its order |

mod along_model;
mod collect;
mod embedding;
mod fits;
mod importance;
mod output_gradients;
mod packed_moment;
mod parts;
mod passes;
mod statistics;
mod text;
mod written;

pub(crate) use embedding::{head_groups, head_tokens};
pub(crate) use fits::Fits;
pub(crate) use importance::{
    PROBE_CHUNK, PROBE_CHUNKS, importance_of, probed_tokens, says_importance, weights_of_layers,
};
pub(crate) use output_gradients::{OutputGradients, Squares, gradient_tokens, moment_rows, uses_gradients};
pub(crate) use packed_moment::packed_bytes;
pub(crate) use passes::{EMBEDDING_RECORD, FittedFile};
pub(crate) use statistics::StatsFiles;
pub(crate) use text::TOKENS_PER_COLUMN;
pub(crate) use written::with_text;

pub use collect::{StatisticsFile, collect_statistics, merge_statistics};
pub use parts::tell_parts;
pub use text::{calibrate, default_tokens};
pub use written::{write_calibration, writing_bytes};
