//! The gated delta rule (arXiv 2412.06464). For each value head, with the state S of `value_dim` rows and `key_dim` columns, key
//! k, query q, value v, decay g and rate b of a token:
//!
//! 1. `S = g S`, or with a decay for each channel of a key `S = S diag(g)`
//! 2. `d = b (v - S k)`, what the state holds for the key replaced by the value, in part
//! 3. `S = S + d k^T`
//! 4. `out = S q`
//!
//! Products of a row with k and q are sums in 16 lanes ([`lanes`](crate::lanes)). A few tokens read rows as they are stored, as here;
//! more of them turn rows into lanes first (`delta_tile`), with the same bits.

use super::delta_block::{Block, GatedDelta, Token};
use super::{delta_tile, tile};
use crate::backend::Cpu;
use crate::lanes::LANES;
use crate::shared::Shared;
use crate::vector::{Vector, VectorWork, run};

/// Rows of a state that a task works on: enough tasks for all threads, each long enough to be worth handing out.
const ROWS: usize = 32;

/// Rows of a task where there are many for each thread: what they have in common is fetched once.
const MOST_ROWS: usize = 128;

/// Tasks per thread, so that one that was interrupted does not hold up the rest.
const TASKS: usize = 4;

/// Rows that are computed side by side.
const PAIR: usize = 2;

/// From so many tokens on it is worth turning rows into lanes.
const TILED: usize = 12;

impl Cpu {
    /// Runs the tokens of `step` from the state `from`; the state behind them goes to `to`, what they read to `out`, one row of
    /// `value_heads * value_dim` for each.
    ///
    /// # Panics
    /// When sizes do not fit each other.
    pub fn gated_delta(&self, step: &GatedDelta<'_>, from: &[f32], to: &mut [f32], out: &mut [f32]) {
        let GatedDelta { key_dim, value_heads, value_dim, .. } = *step;
        let row = key_dim.next_multiple_of(LANES);
        let state = GatedDelta::state_len(value_heads, value_dim, key_dim);
        assert!(from.len() == state && to.len() == state, "a state of another size");
        assert!(value_heads.is_multiple_of(step.key_heads), "value heads that share no key heads");
        let (tokens, out_width) = (step.inputs.len() / step.width(), value_heads * value_dim);
        assert!(
            out.len() == tokens * out_width
                && step.decay.len() == tokens * value_heads * step.decays()
                && step.beta.len() == tokens * value_heads,
            "tokens of another number"
        );
        let mut rows = if tokens < TILED { ROWS } else { MOST_ROWS };
        while rows > ROWS && value_heads * value_dim.div_ceil(rows) < TASKS * self.threads() {
            rows /= 2;
        }
        let blocks = value_dim.div_ceil(rows);
        let (to, out) = (Shared::new(to), Shared::new(out));
        let work = 3 * tokens * state;
        self.for_each(value_heads * blocks, work, |task| {
            let (head, first) = (task / blocks, task % blocks * rows);
            let count = rows.min(value_dim - first);
            let start = head * value_dim + first;
            // SAFETY: each task has rows of its own.
            let state = unsafe { to.part(start * row..(start + count) * row) };
            state.copy_from_slice(&from[start * row..][..state.len()]);
            let block = Block { step, head, first, count, tokens, out: &out };
            run(self.isa(), Pass { block, state });
        });
    }
}

/// All tokens over the state of some rows.
struct Pass<'a> {
    block: Block<'a>,
    state: &'a mut [f32],
}

impl VectorWork for Pass<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Pass { block, state } = self;
        match block.step.by_channel {
            true => block.run_by::<V, true>(state),
            false => block.run_by::<V, false>(state),
        }
    }
}

impl Block<'_> {
    /// Rows by tiles where that pays, the rest by themselves.
    #[inline(always)]
    fn run_by<V: Vector, const BY_CHANNEL: bool>(&self, state: &mut [f32]) {
        let mut changes = [0.0; MOST_ROWS];
        let changes = &mut changes[..self.count];
        let key_dim = self.step.key_dim;
        let tiled =
            if self.tokens >= TILED && tile::fits::<2>(key_dim) { self.count / LANES * LANES } else { 0 };
        let row = state.len() / self.count;
        let (turned, state) = state.split_at_mut(tiled * row);
        let (of_turned, changes) = changes.split_at_mut(tiled);
        if tiled > 0 {
            delta_tile::run::<V, BY_CHANNEL>(self, turned, of_turned);
        }
        if tiled < self.count {
            self.by_token::<V, BY_CHANNEL>(state, changes, tiled);
        }
    }

    /// A pass over the state ends one token and begins the next: so it is read and written once for a token.
    #[inline(always)]
    fn by_token<V: Vector, const BY_CHANNEL: bool>(
        &self,
        state: &mut [f32],
        changes: &mut [f32],
        from: usize,
    ) {
        let Some(last) = self.tokens.checked_sub(1) else { return };
        let mut now = self.token(0).from(from);
        pass::<V, false, true, BY_CHANNEL>(state, now, now, changes, &mut []);
        for token in 0..last {
            let next = self.token(token + 1).from(from);
            // SAFETY: each token has its turn once, and the part lives for the pass.
            let out = unsafe { self.out(token) };
            pass::<V, true, true, BY_CHANNEL>(state, now, next, changes, &mut out[from..]);
            now = next;
        }
        // SAFETY: as above.
        let out = unsafe { self.out(last) };
        pass::<V, true, false, BY_CHANNEL>(state, now, now, changes, &mut out[from..]);
    }
}

/// With `END` steps 3 and 4 of the token `now`, by the d in `changes`; with `BEGIN` steps 1 and 2 of `next`, whose d goes there.
#[inline(always)]
fn pass<V: Vector, const END: bool, const BEGIN: bool, const BY_CHANNEL: bool>(
    state: &mut [f32],
    now: Token<'_>,
    next: Token<'_>,
    changes: &mut [f32],
    out: &mut [f32],
) {
    let row = now.keys.len().next_multiple_of(LANES);
    let paired = changes.len() / PAIR * PAIR;
    for first in (0..paired).step_by(PAIR) {
        let state = &mut state[first * row..][..PAIR * row];
        rows::<V, PAIR, END, BEGIN, BY_CHANNEL>(state, now, next, first, changes, out);
    }
    for first in paired..changes.len() {
        let state = &mut state[first * row..][..row];
        rows::<V, 1, END, BEGIN, BY_CHANNEL>(state, now, next, first, changes, out);
    }
}

/// [`pass`] for `N` rows from `first` on, whose sums do not wait for one another.
///
/// Loops over numbers: what closures and iterators call is not compiled for the instruction set.
#[inline(always)]
fn rows<V: Vector, const N: usize, const END: bool, const BEGIN: bool, const BY_CHANNEL: bool>(
    state: &mut [f32],
    now: Token<'_>,
    next: Token<'_>,
    first: usize,
    changes: &mut [f32],
    out: &mut [f32],
) {
    let full = now.keys.len() / LANES;
    let columns = now.keys.len().div_ceil(LANES);
    let state = &mut state.as_chunks_mut::<LANES>().0[..N * columns];
    let mut change = [V::splat(0.0); N];
    for i in 0..N {
        change[i] = V::splat(changes[first + i]);
    }
    let (mut read, mut held) = ([V::splat(0.0); N], [V::splat(0.0); N]);
    let one_decay = V::splat(next.decays[0]);
    let queries = &now.queries.as_chunks::<LANES>().0[..full];
    let keys = &now.keys.as_chunks::<LANES>().0[..full];
    let next_keys = &next.keys.as_chunks::<LANES>().0[..full];
    let decays = &next.decays.as_chunks::<LANES>().0[..if BY_CHANNEL { full } else { 0 }];
    for at in 0..columns {
        let (q, k, next_k, g);
        if at < full {
            q = V::from_lanes(&queries[at]);
            k = V::from_lanes(&keys[at]);
            next_k = V::from_lanes(&next_keys[at]);
            g = if BY_CHANNEL { V::from_lanes(&decays[at]) } else { one_decay };
        } else {
            q = V::load(&now.queries[full * LANES..]);
            k = V::load(&now.keys[full * LANES..]);
            next_k = V::load(&next.keys[full * LANES..]);
            g = if BY_CHANNEL { V::load(&next.decays[full * LANES..]) } else { one_decay };
        }
        for i in 0..N {
            let mut s = V::from_lanes(&state[i * columns + at]);
            if END {
                s = s.fma(k, change[i]);
                read[i] = read[i].fma(s, q);
            }
            if BEGIN {
                s = s.mul(g);
                held[i] = held[i].fma(s, next_k);
            }
            state[i * columns + at] = s.to_lanes();
        }
    }
    for i in 0..N {
        if END {
            out[first + i] = read[i].sum();
        }
        if BEGIN {
            changes[first + i] = (next.values[first + i] - held[i].sum()) * next.beta;
        }
    }
}

#[cfg(test)]
mod tests;
