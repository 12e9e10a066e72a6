//! What matrices are fitted to: a text, statistics of it, and conversions that go along them.

pub(crate) mod along_model;
pub(crate) mod collect;
pub(crate) mod fits;
pub(crate) mod passes;
pub(crate) mod statistics;
pub(crate) mod text;

pub use collect::{collect_statistics, merge_statistics};
pub use text::calibrate;
