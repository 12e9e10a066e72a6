//! The gated delta rule for many tokens, with the bits of [`delta`](super::delta): rows are turned into lanes ([`tile`](super::tile)).
//!
//! Some tokens pass over 32 rows, which stay in the nearest cache, then over the next. A pass takes four instructions of arithmetic
//! for each vector of a state, of which processors do two at a time. In chunks of C tokens, as in arXiv 2412.06464 (section 3.3), it
//! would be three, and for keys of d values 2 C / d of one more; but then what a token gives depends on the tokens beside it.

#![expect(clippy::needless_range_loop, reason = "iterators are not compiled for the instruction set")]

use super::delta_block::{Block, Token};
use super::tile::{QUARTERS, Room, quarter, total};
use crate::lanes::{LANES, Lanes};
use crate::vector::{Vector, prefetch};

/// Tokens that pass over some rows before the next rows have their turn: what they have stays in the second-level cache.
const TOKENS: usize = 16;

/// How many tokens ahead that is fetched which a token has.
const AHEAD: usize = 2;

/// Runs all tokens of `block` over the rows `state`, a multiple of 16, each of a multiple of 16 values; `changes` has a value for each
/// row.
#[inline(always)]
pub(super) fn run<V: Vector, const BY_CHANNEL: bool>(
    block: &Block<'_>,
    state: &mut [f32],
    changes: &mut [f32],
) {
    let state = state.as_chunks_mut::<LANES>().0;
    let changes = changes.as_chunks_mut::<LANES>().0;
    let size = state.len() / changes.len();
    if !V::MANY {
        return tiles::<V, 1, 1, BY_CHANNEL>(block, state, changes, 0);
    }
    let paired = changes.len() / 2 * 2;
    let (of_pairs, rest) = changes.split_at_mut(paired);
    let (pairs, state) = state.split_at_mut(paired * size);
    tiles::<V, 4, 2, BY_CHANNEL>(block, pairs, of_pairs, 0);
    tiles::<V, 4, 1, BY_CHANNEL>(block, state, rest, paired);
}

/// [`run`] from row `16 from` on, by 16 `N` rows.
#[inline(always)]
fn tiles<V: Vector, const CHAINS: usize, const N: usize, const BY_CHANNEL: bool>(
    block: &Block<'_>,
    state: &mut [Lanes],
    changes: &mut [Lanes],
    from: usize,
) {
    if changes.is_empty() {
        return;
    }
    let size = state.len() / changes.len() * N;
    let mut room = Room::new();
    for at in 0..changes.len() / N {
        room.turn::<CHAINS, N>(&mut state[at * size..][..size]);
    }
    for first in (0..block.tokens).step_by(TOKENS) {
        let tokens = (first, block.tokens.min(first + TOKENS));
        for at in 0..changes.len() / N {
            let tile = &mut state[at * size..][..size];
            some::<V, CHAINS, N, BY_CHANNEL>(block, tile, tokens, from + at * N, &mut changes[at * N..][..N]);
        }
    }
    for at in 0..changes.len() / N {
        room.turn_back::<CHAINS, N>(&mut state[at * size..][..size]);
    }
}

/// Runs tokens of `block` over 16 `N` rows, from `16 at` on. Begins in the middle of the first token, at its d in `changes`, where
/// there was one before, and ends in the middle of the next, where there is one.
#[inline(always)]
fn some<V: Vector, const CHAINS: usize, const N: usize, const BY_CHANNEL: bool>(
    block: &Block<'_>,
    state: &mut [Lanes],
    (start, end): (usize, usize),
    at: usize,
    changes: &mut [Lanes],
) {
    let mut now = block.token(start);
    let mut change = [V::splat(0.0); N];
    if start == 0 {
        (change, _) = pass::<V, CHAINS, N, false, true, BY_CHANNEL>(state, now, now, at, change);
    } else {
        for i in 0..N {
            change[i] = V::from_lanes(&changes[i]);
        }
    }
    for token in start..end {
        let read;
        if token + 1 < block.tokens {
            let next = block.token(token + 1);
            // Tokens lie far apart, which processors do not foresee.
            let later = (token + AHEAD).min(block.tokens - 1);
            // SAFETY: no part lives yet in this turn, and this one ends with the call.
            fetch::<N>(block.token(later), unsafe { block.out(later) }, at);
            (change, read) = pass::<V, CHAINS, N, true, true, BY_CHANNEL>(state, now, next, at, change);
            now = next;
        } else {
            (_, read) = pass::<V, CHAINS, N, true, false, BY_CHANNEL>(state, now, now, at, change);
        }
        // SAFETY: no other part lives.
        let out = unsafe { block.out(token) };
        let out = &mut out.as_chunks_mut::<LANES>().0[at..at + N];
        for i in 0..N {
            out[i] = read[i].to_lanes();
        }
    }
    for i in 0..N {
        changes[i] = change[i].to_lanes();
    }
}

#[inline(always)]
fn fetch<const N: usize>(token: Token<'_>, out: &[f32], at: usize) {
    for part in [token.queries, token.keys, token.decays] {
        let lines = part.as_chunks::<LANES>().0;
        for i in 0..lines.len() {
            prefetch(&raw const lines[i]);
        }
    }
    for part in [token.values, out] {
        let lines = &part.as_chunks::<LANES>().0[at..at + N];
        for i in 0..N {
            prefetch(&raw const lines[i]);
        }
    }
}

/// With `END` steps 3 and 4 of the token `now`, by its d in `change`; with `BEGIN` steps 1 and 2 of `next`, whose d is the first
/// result. The second is what `now` has read.
///
/// Loops over numbers: what closures and iterators call is not compiled for the instruction set.
#[inline(always)]
fn pass<
    V: Vector,
    const CHAINS: usize,
    const N: usize,
    const END: bool,
    const BEGIN: bool,
    const BY_CHANNEL: bool,
>(
    state: &mut [Lanes],
    now: Token<'_>,
    next: Token<'_>,
    first: usize,
    change: [V; N],
) -> ([V; N], [V; N]) {
    let zeros = [V::splat(0.0); LANES / QUARTERS];
    let (mut held, mut read) = ([[V::splat(0.0); QUARTERS]; N], [[V::splat(0.0); QUARTERS]; N]);
    let one_decay = V::splat(next.decays[0]);
    let queries = now.queries.as_chunks::<LANES>().0;
    let blocks = queries.len();
    let keys = &now.keys.as_chunks::<LANES>().0[..blocks];
    let next_keys = &next.keys.as_chunks::<LANES>().0[..blocks];
    let decays = &next.decays.as_chunks::<LANES>().0[..if BY_CHANNEL { blocks } else { 0 }];
    let tile = state.as_chunks_mut::<N>().0.as_chunks_mut::<CHAINS>().0;
    let groups = LANES / QUARTERS / CHAINS;
    for part in 0..QUARTERS {
        let (mut held_in, mut read_in) = ([zeros; N], [zeros; N]);
        for group in 0..groups {
            let steps = &mut tile[(part * groups + group) * blocks..][..blocks];
            let (mut held_by, mut read_by) = ([[V::splat(0.0); CHAINS]; N], [[V::splat(0.0); CHAINS]; N]);
            for at in 0..blocks {
                for chain in 0..CHAINS {
                    let column = QUARTERS * (group * CHAINS + chain) + part;
                    let (q, k) = (V::splat(queries[at][column]), V::splat(keys[at][column]));
                    let next_k = V::splat(next_keys[at][column]);
                    let g = if BY_CHANNEL { V::splat(decays[at][column]) } else { one_decay };
                    for i in 0..N {
                        let mut s = V::from_lanes(&steps[at][chain][i]);
                        if END {
                            s = s.fma(k, change[i]);
                            read_by[i][chain] = read_by[i][chain].fma(s, q);
                        }
                        if BEGIN {
                            s = s.mul(g);
                            held_by[i][chain] = held_by[i][chain].fma(s, next_k);
                        }
                        steps[at][chain][i] = s.to_lanes();
                    }
                }
            }
            for i in 0..N {
                for chain in 0..CHAINS {
                    held_in[i][group * CHAINS + chain] = held_by[i][chain];
                    read_in[i][group * CHAINS + chain] = read_by[i][chain];
                }
            }
        }
        for i in 0..N {
            held[i][part] = quarter(held_in[i]);
            read[i][part] = quarter(read_in[i]);
        }
    }
    let (mut coming, mut gives) = (change, change);
    let values = &next.values.as_chunks::<LANES>().0[first..first + N];
    for i in 0..N {
        coming[i] = V::from_lanes(&values[i]).sub(total(held[i])).mul(V::splat(next.beta));
        gives[i] = total(read[i]);
    }
    (coming, gives)
}
