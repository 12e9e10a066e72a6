//! The gated delta rule (arXiv 2412.06464). For each value head, with the state S of `value_dim` rows and `key_dim` columns, key
//! k, query q, value v, decay g and rate b of a token:
//!
//! 1. `S = g S`, or with a decay for each channel of a key `S = S diag(g)`
//! 2. `d = b (v - S k)`, what the state holds for the key replaced by the value, in part
//! 3. `S = S + d k^T`
//! 4. `out = S q`
//!
//! Products of a row with k and q are sums in 16 lanes ([`lanes`](crate::lanes)).

use crate::backend::Cpu;
use crate::lanes::LANES;
use crate::shared::Shared;
use crate::vector::{Vector, VectorWork, run};

/// Rows of a state that a task works on: enough tasks for all threads, each long enough to be worth handing out.
const ROWS: usize = 32;

/// Rows that are computed side by side.
const PAIR: usize = 2;

/// A step of some tokens.
#[derive(Debug, Clone, Copy)]
pub struct GatedDelta<'a> {
    /// Heads of queries and keys. Value heads are a multiple of these, and those that follow one another share a key head.
    pub key_heads: usize,
    /// Width of such a head.
    pub key_dim: usize,
    /// Heads of values.
    pub value_heads: usize,
    /// Width of such a head.
    pub value_dim: usize,
    /// Queries, keys and values of each token, one behind another.
    pub inputs: &'a [f32],
    /// g of each token and value head, or of each channel of its key.
    pub decay: &'a [f32],
    /// Whether each channel has one.
    pub by_channel: bool,
    /// b of each token and value head.
    pub beta: &'a [f32],
}

impl GatedDelta<'_> {
    /// Floats of a state with these numbers of heads and widths: rows are padded to whole vectors.
    pub const fn state_len(value_heads: usize, value_dim: usize, key_dim: usize) -> usize {
        value_heads.saturating_mul(value_dim).saturating_mul(key_dim.next_multiple_of(LANES))
    }

    /// Values of g of a value head.
    const fn decays(&self) -> usize {
        if self.by_channel { self.key_dim } else { 1 }
    }

    const fn width(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }
}

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
        let blocks = value_dim.div_ceil(ROWS);
        let (to, out) = (Shared::new(to), Shared::new(out));
        let work = 3 * tokens * state;
        self.for_each(value_heads * blocks, work, |task| {
            let (head, first) = (task / blocks, task % blocks * ROWS);
            let count = ROWS.min(value_dim - first);
            let start = head * value_dim + first;
            // SAFETY: each task has rows of its own.
            let state = unsafe { to.part(start * row..(start + count) * row) };
            state.copy_from_slice(&from[start * row..][..state.len()]);
            run(self.isa(), Block { step, head, first, count, tokens, state, out: &out });
        });
    }
}

/// Some rows of one head.
struct Block<'a> {
    step: &'a GatedDelta<'a>,
    head: usize,
    first: usize,
    count: usize,
    tokens: usize,
    state: &'a mut [f32],
    /// That of all rows.
    out: &'a Shared<'a>,
}

/// What a token has for a block.
#[derive(Clone, Copy)]
struct Token<'a> {
    queries: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    decays: &'a [f32],
    beta: f32,
}

impl VectorWork for Block<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.step.by_channel {
            true => self.run_by::<V, true>(),
            false => self.run_by::<V, false>(),
        }
    }
}

impl<'a> Block<'a> {
    #[inline(always)]
    fn token(&self, token: usize) -> Token<'a> {
        let GatedDelta { key_heads, key_dim, value_heads, value_dim, .. } = *self.step;
        let (inputs, decays) = (&self.step.inputs[token * self.step.width()..], self.step.decays());
        let key_head = self.head / (value_heads / key_heads);
        let gate = token * value_heads + self.head;
        Token {
            queries: &inputs[key_head * key_dim..][..key_dim],
            keys: &inputs[(key_heads + key_head) * key_dim..][..key_dim],
            values: &inputs[2 * key_heads * key_dim + self.head * value_dim + self.first..][..self.count],
            decays: &self.step.decay[gate * decays..][..decays],
            beta: self.step.beta[gate],
        }
    }

    /// A pass over the state ends one token and begins the next: so it is read and written once for a token.
    #[inline(always)]
    fn run_by<V: Vector, const BY_CHANNEL: bool>(self) {
        let Some(last) = self.tokens.checked_sub(1) else { return };
        let mut changes = [0.0; ROWS];
        let changes = &mut changes[..self.count];
        let out = |token: usize| {
            let start = (token * self.step.value_heads + self.head) * self.step.value_dim + self.first;
            // SAFETY: no other block has outputs of these rows, and this one is done with those of a token before the next.
            unsafe { self.out.part(start..start + self.count) }
        };
        let mut now = self.token(0);
        pass::<V, false, true, BY_CHANNEL>(self.state, now, now, changes, &mut []);
        for token in 0..last {
            let next = self.token(token + 1);
            pass::<V, true, true, BY_CHANNEL>(self.state, now, next, changes, out(token));
            now = next;
        }
        pass::<V, true, false, BY_CHANNEL>(self.state, now, now, changes, out(last));
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
mod tests {
    use super::*;
    use crate::isa::Isa;

    const KEY_HEADS: usize = 2;
    const VALUE_HEADS: usize = 4;
    const TOKENS: usize = 9;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 29 + seed * 7) % 23) as f32 * 0.05 - 0.5).collect()
    }

    struct Case {
        key_dim: usize,
        value_dim: usize,
        inputs: Vec<f32>,
        by_channel: bool,
        decay: Vec<f32>,
        beta: Vec<f32>,
    }

    impl Case {
        fn new(key_dim: usize, value_dim: usize, by_channel: bool) -> Case {
            let width = 2 * KEY_HEADS * key_dim + VALUE_HEADS * value_dim;
            let gates = |seed| numbers(TOKENS * VALUE_HEADS, seed).into_iter().map(|v| v + 0.55).collect();
            let decays = TOKENS * VALUE_HEADS * if by_channel { key_dim } else { 1 };
            let decay = numbers(decays, 2).into_iter().map(|v| v + 0.55).collect();
            Case { key_dim, value_dim, inputs: numbers(TOKENS * width, 1), by_channel, decay, beta: gates(3) }
        }

        fn run(&self, cpu: &Cpu, steps: &[usize]) -> (Vec<f32>, Vec<f32>) {
            let Case { key_dim, value_dim, .. } = *self;
            let width = 2 * KEY_HEADS * key_dim + VALUE_HEADS * value_dim;
            let mut state = vec![0.0; GatedDelta::state_len(VALUE_HEADS, value_dim, key_dim)];
            let (mut first, mut all) = (0, Vec::new());
            for tokens in steps {
                let of = |values: &'_ [f32], width: usize| values[first * width..][..tokens * width].to_vec();
                let (inputs, decay, beta) =
                    (of(&self.inputs, width), of(&self.decay, self.decays()), of(&self.beta, VALUE_HEADS));
                let step = GatedDelta {
                    key_heads: KEY_HEADS,
                    key_dim,
                    value_heads: VALUE_HEADS,
                    value_dim,
                    inputs: &inputs,
                    decay: &decay,
                    by_channel: self.by_channel,
                    beta: &beta,
                };
                let mut out = vec![f32::NAN; tokens * VALUE_HEADS * value_dim];
                let mut next = vec![f32::NAN; state.len()];
                cpu.gated_delta(&step, &state, &mut next, &mut out);
                all.extend(out);
                state = next;
                first += tokens;
            }
            (all, state)
        }

        /// Of a token.
        fn decays(&self) -> usize {
            VALUE_HEADS * if self.by_channel { self.key_dim } else { 1 }
        }

        /// By the formulas, in f64.
        fn expected(&self) -> Vec<f64> {
            let Case { key_dim, value_dim, .. } = *self;
            let width = 2 * KEY_HEADS * key_dim + VALUE_HEADS * value_dim;
            let mut states = vec![vec![vec![0.0f64; key_dim]; value_dim]; VALUE_HEADS];
            let mut out = Vec::new();
            for t in 0..TOKENS {
                let x: Vec<f64> = self.inputs[t * width..][..width].iter().map(|v| f64::from(*v)).collect();
                for (h, state) in states.iter_mut().enumerate() {
                    let key_head = h / (VALUE_HEADS / KEY_HEADS);
                    let (q, k) = (&x[key_head * key_dim..], &x[(KEY_HEADS + key_head) * key_dim..]);
                    let v = &x[2 * KEY_HEADS * key_dim + h * value_dim..];
                    let gate = |all: &[f32]| f64::from(all[t * VALUE_HEADS + h]);
                    for (row, v) in state.iter_mut().zip(v) {
                        for (c, s) in row.iter_mut().enumerate() {
                            let run = self.decays() / VALUE_HEADS;
                            *s *= f64::from(self.decay[t * self.decays() + h * run + c % run]);
                        }
                        let held: f64 = row.iter().zip(k).map(|(s, k)| s * k).sum();
                        let change = (v - held) * gate(&self.beta);
                        row.iter_mut().zip(k).for_each(|(s, k)| *s += change * k);
                        out.push(row.iter().zip(q).map(|(s, q)| s * q).sum());
                    }
                }
            }
            out
        }
    }

    #[test]
    fn states_follow_the_formulas_in_any_steps_with_the_same_bits_everywhere() {
        let shapes = [(1, 1), (12, 20), (16, 33), (40, 64)]
            .map(|(key_dim, value_dim)| [false, true].map(|by_channel| (key_dim, value_dim, by_channel)));
        for (key_dim, value_dim, by_channel) in shapes.into_iter().flatten() {
            let case = Case::new(key_dim, value_dim, by_channel);
            let whole = case.run(&Cpu::with_threads(Isa::SCALAR, 1).unwrap(), &[TOKENS]);
            for (i, (found, expected)) in whole.0.iter().zip(case.expected()).enumerate() {
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{i}: {found} {expected}");
            }
            for isa in Isa::available() {
                let cpu = Cpu::with_threads(isa, 3).unwrap();
                for steps in [&[TOKENS][..], &[1; TOKENS], &[4, 5]] {
                    assert_eq!(case.run(&cpu, steps), whole, "{isa:?} {steps:?} {key_dim} {value_dim}");
                }
            }
        }
    }
}
