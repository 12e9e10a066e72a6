//! How many positions are taken together.

use super::tile::ROW;

/// Positions that are read together.
pub(super) const STEP: usize = 64;
/// Positions of a chunk.
pub(super) const CHUNK: usize = ROW;
