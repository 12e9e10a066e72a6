//! What attention over many tokens in bytes keeps.

use super::super::aligned::AlignedFloats;
use super::super::byte_products::Quads;
use super::super::lanes::{LANES, Lanes};
use super::sizes::CHUNK;

/// Vectors of the positions of a chunk.
pub(super) const CHUNK_LANES: usize = CHUNK / LANES;

/// Buffers of attention over many tokens in bytes.
#[derive(Default)]
pub(super) struct ByteTileRoom {
    /// Queries, a row of bytes each.
    pub bytes: Vec<u8>,
    pub queries: Vec<ByteQuery>,
    /// Of a chunk.
    pub columns: ByteColumns,
    /// Of 16 rows: sums of products with keys, then scores; weights; sums of products with values.
    pub scores: AlignedFloats,
    pub weights: Vec<u8>,
    pub sums: AlignedFloats,
    /// Results of all rows.
    pub rows: AlignedFloats,
    /// What keys are relative to.
    pub reference: AlignedFloats,
}

/// A query as bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ByteQuery {
    /// What products with keys are multiplied with.
    pub scale: f32,
    /// The score of the reference.
    pub base: f32,
}

/// Keys and values of a chunk.
#[derive(Default)]
pub(super) struct ByteColumns {
    /// 32 positions after another, all dimensions.
    pub keys: Vec<Quads>,
    /// 32 dimensions after another, all positions.
    pub values: Vec<Quads>,
    pub scales: Scales,
    /// Keys of 16 positions, or 16 queries, on their way.
    pub rotated: Vec<Lanes>,
}

/// What products are multiplied with.
pub(super) struct Scales {
    /// A product with the key of a position is `sum * keys + offsets`.
    pub keys: [Lanes; CHUNK_LANES],
    pub offsets: [Lanes; CHUNK_LANES],
    /// A value is `code * values * largest_value`.
    pub values: [Lanes; CHUNK_LANES],
    pub largest_value: f32,
    /// The mean of `values`.
    pub mean_value: f32,
}

impl Default for Scales {
    fn default() -> Scales {
        let none = [[0.0; LANES]; CHUNK_LANES];
        Scales { keys: none, offsets: none, values: none, largest_value: 0.0, mean_value: 0.0 }
    }
}
