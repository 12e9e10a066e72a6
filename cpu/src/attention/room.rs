//! Buffers for keys and values on their way into arithmetic.

use super::super::aligned::AlignedFloats;
#[cfg(any(test, target_arch = "x86_64"))]
use super::super::bf16_unit::{Columns, RowLine};
use super::super::byte_unit::{ByteRows, ByteSums};
use super::key_codes::QueryPart;
use super::value_codes::{COLUMNS, VECTORS, WeightRoom};

/// Queries as products take them: buffers that grow.
#[derive(Default)]
pub(super) struct QueryRoom {
    pub(super) floats: AlignedFloats,
    pub(super) parts: Vec<QueryPart>,
}

/// Keys and values of a step as floats.
#[derive(Default)]
pub(super) struct StepRoom {
    pub keys: AlignedFloats,
    pub values: AlignedFloats,
    pub weights: WeightRoom,
}

/// Queries, weights and sums on their way through a matrix unit for bytes.
#[derive(Debug)]
pub(super) struct ByteRoom {
    /// Of eight rows a group of dimensions, then the next.
    pub(super) queries: Vec<ByteRows>,
    pub(super) weights: ByteRows,
    /// Of a step, and of the one before.
    pub(super) scores: [[ByteSums; VECTORS]; 2],
    pub(super) values: [[ByteSums; COLUMNS]; 2],
}

impl Default for ByteRoom {
    fn default() -> ByteRoom {
        ByteRoom {
            queries: Vec::new(),
            weights: ByteRows::ZERO,
            scores: [[ByteSums::ZERO; VECTORS]; 2],
            values: [[ByteSums::ZERO; COLUMNS]; 2],
        }
    }
}

/// Buffers of attention over many tokens in bfloat16.
#[cfg(any(test, target_arch = "x86_64"))]
#[derive(Default)]
pub(super) struct TileRoom {
    /// Queries, a row of lines each.
    pub(super) queries: Vec<RowLine>,
    /// Of a chunk: 32 positions after another, all dimensions; and 32 dimensions after another, all positions.
    pub(super) keys: Vec<Columns>,
    pub(super) values: Vec<Columns>,
    /// Of 32 rows.
    pub(super) scores: AlignedFloats,
    pub(super) weights: Vec<RowLine>,
    /// Results of all rows, sums of their weights in lanes, and the scores that these are relative to.
    pub(super) rows: AlignedFloats,
    pub(super) totals: AlignedFloats,
    pub(super) origins: AlignedFloats,
}

/// Makes room for at least `len` values.
#[cfg(any(test, target_arch = "x86_64"))]
pub(super) fn grow<T: Copy>(buffer: &mut Vec<T>, len: usize, value: T) {
    if buffer.len() < len {
        buffer.resize(len, value);
    }
}
