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
use crate::lanes::{LANES, Lanes};
use crate::shared::Shared;
use crate::vector::{Vector, VectorWork, run};

/// Rows of a state that a task works on: enough tasks for all threads, each long enough to be worth handing out.
const ROWS: usize = 32;

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
            let rows = first..value_dim.min(first + ROWS);
            let start = head * value_dim + rows.start;
            // SAFETY: each task has rows of its own, of the state and of the outputs of each token.
            let state = unsafe { to.part(start * row..(start + rows.len()) * row) };
            state.copy_from_slice(&from[start * row..][..state.len()]);
            for token in 0..tokens {
                let at = token * out_width + start;
                // SAFETY: as above.
                let out = unsafe { out.part(at..at + rows.len()) };
                let (first, state) = (rows.start, &mut *state);
                let token = Token { step, head, first, token, state, out };
                match step.by_channel {
                    true => run(self.isa(), ByChannel(token)),
                    false => run(self.isa(), token),
                }
            }
        });
    }
}

/// One token, some rows of one head.
struct Token<'a> {
    step: &'a GatedDelta<'a>,
    head: usize,
    first: usize,
    token: usize,
    state: &'a mut [f32],
    out: &'a mut [f32],
}

/// The same where each channel of a key has a decay.
struct ByChannel<'a>(Token<'a>);

impl VectorWork for Token<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let decay = V::splat(self.decays()[0]);
        self.with_decays(|_| decay);
    }
}

impl VectorWork for ByChannel<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let decays = self.0.decays();
        self.0.with_decays(|i| V::load(&decays[i * LANES..decays.len().min((i + 1) * LANES)]));
    }
}

impl<'a> Token<'a> {
    #[inline(always)]
    fn decays(&self) -> &'a [f32] {
        let count = self.step.decays();
        &self.step.decay[(self.token * self.step.value_heads + self.head) * count..][..count]
    }

    /// `decay_of` gives the decays of the lanes of a row with this number.
    #[inline(always)]
    fn with_decays<V: Vector>(self, decay_of: impl Fn(usize) -> V) {
        let GatedDelta { key_heads, key_dim, value_heads, value_dim, .. } = *self.step;
        let inputs = &self.step.inputs[self.token * self.step.width()..][..self.step.width()];
        let key_head = self.head / (value_heads / key_heads);
        let queries = &inputs[key_head * key_dim..][..key_dim];
        let keys = &inputs[(key_heads + key_head) * key_dim..][..key_dim];
        let values = &inputs[2 * key_heads * key_dim + self.head * value_dim + self.first..];
        let beta = self.step.beta[self.token * value_heads + self.head];
        let row = key_dim.next_multiple_of(LANES);
        for ((state, value), out) in self.state.chunks_exact_mut(row).zip(values).zip(self.out) {
            let state: &mut [Lanes] = state.as_chunks_mut().0;
            let mut held = V::splat(0.0);
            for (i, (s, k)) in state.iter_mut().zip(keys.chunks(LANES)).enumerate() {
                let decayed = V::from_lanes(s).mul(decay_of(i));
                *s = decayed.to_lanes();
                held = held.fma(decayed, V::load(k));
            }
            let change = V::splat((value - held.sum()) * beta);
            let mut read = V::splat(0.0);
            for ((s, k), q) in state.iter_mut().zip(keys.chunks(LANES)).zip(queries.chunks(LANES)) {
                let changed = V::from_lanes(s).fma(V::load(k), change);
                *s = changed.to_lanes();
                read = read.fma(changed, V::load(q));
            }
            *out = read.sum();
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
