//! Rows of a state turned so that each is a lane: what prompts work on, many tokens at a time.
//!
//! A product of a row with a vector is then a sum in every lane, which needs none across lanes, and a value of the vector serves all
//! rows. The sums are those of [`lanes`](crate::lanes) to the bit: columns that have the same number mod 16 are one chain, and
//! [`quarter`] and [`total`] add the chains in the order of [`sum`](crate::lanes::sum).
//!
//! A tile is where its rows were, and has its vectors in the order in which they are added: `CHAINS` of a quarter side by side.

#![expect(clippy::needless_range_loop, reason = "iterators are not compiled for the instruction set")]

use crate::lanes::{LANES, Lanes};
use crate::vector::Vector;

/// Quarters of a sum, each of columns that have the same number mod 4.
pub(super) const QUARTERS: usize = 4;

/// Vectors of a tile at most.
const MOST: usize = 512;

/// Whether there can be tiles of 16 `N` rows of so many values.
pub(super) const fn fits<const N: usize>(columns: usize) -> bool {
    columns.is_multiple_of(LANES) && N * columns <= MOST
}

/// Where the vectors of a column are in a tile of rows of `blocks` x 16 values.
#[inline(always)]
const fn place<const CHAINS: usize>(column: usize, block: usize, blocks: usize) -> (usize, usize) {
    let (quarter, chain) = (column % QUARTERS, column / QUARTERS);
    ((quarter * (LANES / QUARTERS / CHAINS) + chain / CHAINS) * blocks + block, chain % CHAINS)
}

/// Memory that turning takes. Begins at a cache line, so that no vector lies across two.
#[repr(align(64))]
pub(super) struct Room([Lanes; MOST]);

impl Room {
    #[inline(always)]
    pub(super) fn new() -> Room {
        Room([[0.0; LANES]; MOST])
    }

    /// Makes a tile of 16 `N` rows.
    #[inline(always)]
    pub(super) fn turn<const CHAINS: usize, const N: usize>(&mut self, rows: &mut [Lanes]) {
        let from = &mut self.0[..rows.len()];
        from.copy_from_slice(rows);
        let blocks = rows.len() / (N * LANES);
        let tile = rows.as_chunks_mut::<N>().0.as_chunks_mut::<CHAINS>().0;
        for i in 0..N {
            for block in 0..blocks {
                for row in 0..LANES {
                    let part = &from[(i * LANES + row) * blocks + block];
                    for column in 0..LANES {
                        let (step, chain) = place::<CHAINS>(column, block, blocks);
                        tile[step][chain][i][row] = part[column];
                    }
                }
            }
        }
    }

    /// Makes rows of such a tile.
    #[inline(always)]
    pub(super) fn turn_back<const CHAINS: usize, const N: usize>(&mut self, tile: &mut [Lanes]) {
        let from = &mut self.0[..tile.len()];
        from.copy_from_slice(tile);
        let (from, rows) = (from.as_chunks::<N>().0.as_chunks::<CHAINS>().0, tile);
        let blocks = rows.len() / (N * LANES);
        for i in 0..N {
            for block in 0..blocks {
                for row in 0..LANES {
                    let part = &mut rows[(i * LANES + row) * blocks + block];
                    for column in 0..LANES {
                        let (step, chain) = place::<CHAINS>(column, block, blocks);
                        part[column] = from[step][chain][i][row];
                    }
                }
            }
        }
    }
}

/// What the chains of a quarter add up to.
#[inline(always)]
pub(super) fn quarter<V: Vector>(chains: [V; LANES / QUARTERS]) -> V {
    chains[0].add(chains[2]).add(chains[1].add(chains[3]))
}

/// What the quarters add up to.
#[inline(always)]
pub(super) fn total<V: Vector>(quarters: [V; QUARTERS]) -> V {
    quarters[0].add(quarters[2]).add(quarters[1].add(quarters[3]))
}
