//! The state space of Mamba-2 for many tokens, with the bits of [`state_space`](super::state_space): rows are turned into lanes
//! ([`tile`](super::tile)).

#![expect(clippy::needless_range_loop, reason = "iterators are not compiled for the instruction set")]

use super::state_block::{Block, Token};
use super::tile::{QUARTERS, Room, quarter, total};
use crate::lanes::{LANES, Lanes};
use crate::vector::{Vector, prefetch};

/// Tokens that pass over some rows before the next rows have their turn: what they have stays in the second-level cache.
const TOKENS: usize = 16;

/// How many tokens ahead that is fetched which a token has.
const AHEAD: usize = 2;

/// Runs all tokens of `block` over the rows `state`, `16 vectors` of them, each of a multiple of 16 values.
#[inline(always)]
pub(super) fn run<V: Vector>(block: &Block<'_>, state: &mut [f32], vectors: usize) {
    let state = state.as_chunks_mut::<LANES>().0;
    if !V::MANY {
        return tiles::<V, 4, 1>(block, state, (0, vectors));
    }
    let paired = vectors / 2 * 2;
    let (pairs, rest) = state.split_at_mut(state.len() / vectors * paired);
    tiles::<V, 4, 2>(block, pairs, (0, paired));
    tiles::<V, 4, 1>(block, rest, (paired, vectors));
}

/// [`run`] for some of the vectors of rows, `N` at a time.
#[inline(always)]
fn tiles<V: Vector, const CHAINS: usize, const N: usize>(
    block: &Block<'_>,
    state: &mut [Lanes],
    (from, end): (usize, usize),
) {
    if from == end {
        return;
    }
    let size = state.len() / (end - from) * N;
    let mut room = Room::new();
    for at in 0..(end - from) / N {
        room.turn::<CHAINS, N>(&mut state[at * size..][..size]);
    }
    for first in (0..block.tokens).step_by(TOKENS) {
        for at in 0..(end - from) / N {
            let tile = &mut state[at * size..][..size];
            for token in first..block.tokens.min(first + TOKENS) {
                let rows = from + at * N;
                // Tokens lie far apart, which processors do not foresee.
                let later = (token + AHEAD).min(block.tokens - 1);
                // SAFETY: no other part lives.
                fetch::<N>(block.token(later), unsafe { block.out(later) }, rows);
                let read = pass::<V, CHAINS, N>(tile, block.token(token), rows);
                // SAFETY: as above.
                let out = unsafe { block.out(token) };
                let out = &mut out.as_chunks_mut::<LANES>().0[rows..rows + N];
                for i in 0..N {
                    out[i] = read[i].to_lanes();
                }
            }
        }
    }
    for at in 0..(end - from) / N {
        room.turn_back::<CHAINS, N>(&mut state[at * size..][..size]);
    }
}

#[inline(always)]
fn fetch<const N: usize>(token: Token<'_>, out: &[f32], rows: usize) {
    for part in [token.b, token.c] {
        let lines = part.as_chunks::<LANES>().0;
        for i in 0..lines.len() {
            prefetch(&raw const lines[i]);
        }
    }
    for part in [token.x, out] {
        let lines = &part.as_chunks::<LANES>().0[rows..rows + N];
        for i in 0..N {
            prefetch(&raw const lines[i]);
        }
    }
}

/// A token over 16 `N` rows, from `16 rows` on: what they give.
///
/// Loops over numbers: what closures and iterators call is not compiled for the instruction set.
#[inline(always)]
fn pass<V: Vector, const CHAINS: usize, const N: usize>(
    state: &mut [Lanes],
    now: Token<'_>,
    rows: usize,
) -> [V; N] {
    let zeros = [V::splat(0.0); QUARTERS];
    let b = now.b.as_chunks::<LANES>().0;
    let blocks = b.len();
    let c = &now.c.as_chunks::<LANES>().0[..blocks];
    let x = &now.x.as_chunks::<LANES>().0[rows..rows + N];
    let (decay, mut added, mut read) = (V::splat(now.decay), [V::splat(0.0); N], [zeros; N]);
    for i in 0..N {
        added[i] = V::splat(now.step).mul(V::from_lanes(&x[i]));
    }
    let tile = state.as_chunks_mut::<N>().0.as_chunks_mut::<CHAINS>().0;
    let groups = LANES / QUARTERS / CHAINS;
    for part in 0..QUARTERS {
        let mut read_in = [[V::splat(0.0); LANES / QUARTERS]; N];
        for group in 0..groups {
            let steps = &mut tile[(part * groups + group) * blocks..][..blocks];
            let mut read_by = [[V::splat(0.0); CHAINS]; N];
            for at in 0..blocks {
                for chain in 0..CHAINS {
                    let column = QUARTERS * (group * CHAINS + chain) + part;
                    let (b, c) = (V::splat(b[at][column]), V::splat(c[at][column]));
                    for i in 0..N {
                        let s = V::from_lanes(&steps[at][chain][i]).mul(decay).fma(b, added[i]);
                        steps[at][chain][i] = s.to_lanes();
                        read_by[i][chain] = read_by[i][chain].fma(s, c);
                    }
                }
            }
            for i in 0..N {
                for chain in 0..CHAINS {
                    read_in[i][group * CHAINS + chain] = read_by[i][chain];
                }
            }
        }
        for i in 0..N {
            read[i][part] = quarter(read_in[i]);
        }
    }
    let mut gives = added;
    for i in 0..N {
        gives[i] = total(read[i]).fma(V::splat(now.skip), V::from_lanes(&x[i]));
    }
    gives
}
