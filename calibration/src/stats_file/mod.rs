//! Statistics in a file: made once for a model and a text, used for many conversions, and added to those of other texts.
//!
//! All numbers are little endian. A file is a header, records, and an end record:
//!
//! | Bytes of the header | |
//! |---|---|
//! | 8 | `QSFSTATS` |
//! | 4 | version, 1 |
//! | 4 | number of texts, t |
//! | 32 | [fingerprint](qsf_runtime::fingerprint::model_fingerprint) of the model |
//! | t x 40 | fingerprint and number of tokens of each text |
//! | 4 | CRC-32 of the header up to here |
//!
//! | Bytes of a record | |
//! |---|---|
//! | 4 | layer, or 2^32 - 1 for the head |
//! | 1 | which: an input (0 attention, 1 attention output, 2 feed-forward, 3 down, 4 feed-forward and 5 down of an expert, 6 head), 254 influence of the layer, 255 end |
//! | 1 | 1 with products, else 0 |
//! | 2 | 0 |
//! | 4 | expert, or 0 |
//! | 4 | columns, n; 1 for the influence, 0 for the end |
//! | 8 | tokens |
//! | 8 n | sums of each column, f64; of an influence, that |
//! | 8 n | sums of squares, f64; not of an influence |
//! | 2 n (n + 1) | on request: sums of products, f32, row by row from the diagonal on |
//! | 4 | CRC-32 of the record up to here |
//!
//! Records are in order: layers, in each the influence and then its inputs, the head, the end.

mod header;
mod merge;
mod reader;
mod record;
mod summary;
mod writer;

pub use header::{StatsHeader, TextMark};
pub use merge::MergedStats;
pub use reader::StatsReader;
pub use summary::{InputSummary, LayerSummary};
pub use writer::StatsWriter;

#[cfg(test)]
mod tests;
