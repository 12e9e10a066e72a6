//! The state space of Mamba-1 (arXiv 2312.00752). For each channel, with the state s of `state` values and its rates A, which are
//! below 0, input x, step d, inputs B and C of all channels, and a factor D of the channel:
//!
//! 1. `s = exp(d A) s + d x B`
//! 2. `out = C s + D x`
//!
//! Products with C are sums in 16 lanes ([`lanes`](crate::lanes)).

use crate::backend::Cpu;
use crate::lanes::{LANES, Lanes};
use crate::math::exp_of_small;
use crate::shared::Shared;
use crate::vector::{Vector, VectorWork, run};

/// Channels that a task works on.
const CHANNELS: usize = 64;

/// What an exponential and the rest cost for a value of the state, in multiply-adds.
const WORK: usize = 12;

/// A step of some tokens.
#[derive(Debug, Clone, Copy)]
pub struct SelectiveScan<'a> {
    /// Number of channels.
    pub channels: usize,
    /// Values of the state of a channel.
    pub state: usize,
    /// x of each token and channel.
    pub inputs: &'a [f32],
    /// d of each token and channel.
    pub step: &'a [f32],
    /// Of each token a row that ends with B and C.
    pub shared: &'a [f32],
    /// A of each channel, rows padded as those of a state ([`SelectiveScan::padded`]).
    pub decay: &'a [f32],
    /// D of each channel.
    pub skip: &'a [f32],
}

impl SelectiveScan<'_> {
    /// Floats of a state with these numbers: rows are padded to whole vectors.
    pub const fn state_len(channels: usize, state: usize) -> usize {
        channels.saturating_mul(state.next_multiple_of(LANES))
    }

    /// Rows of `state` values, padded with zeros to whole vectors.
    pub fn padded(rows: &[f32], state: usize) -> Vec<f32> {
        let pad = std::iter::repeat_n(0.0, state.next_multiple_of(LANES) - state);
        rows.chunks_exact(state).flat_map(|row| row.iter().copied().chain(pad.clone())).collect()
    }
}

impl Cpu {
    /// Runs the tokens of `step` from the state `from`; the state behind them goes to `to`, what they read to `out`, one row of
    /// `channels` for each.
    ///
    /// # Panics
    /// When sizes do not fit each other.
    pub fn selective_scan(&self, step: &SelectiveScan<'_>, from: &[f32], to: &mut [f32], out: &mut [f32]) {
        let SelectiveScan { channels, .. } = *step;
        let row = step.state.next_multiple_of(LANES);
        let state = SelectiveScan::state_len(channels, step.state);
        assert!(from.len() == state && to.len() == state, "a state of another size");
        assert!(step.decay.len() == state && step.skip.len() == channels, "rates of another size");
        let tokens = step.inputs.len() / channels;
        let shared = step.shared.len() / tokens.max(1);
        assert!(
            out.len() == tokens * channels
                && step.step.len() == tokens * channels
                && step.inputs.len() == tokens * channels
                && step.shared.len() == tokens * shared
                && shared >= 2 * step.state,
            "tokens of another number"
        );
        let (to, out) = (Shared::new(to), Shared::new(out));
        self.for_each(channels.div_ceil(CHANNELS), WORK * tokens * state, |task| {
            let first = task * CHANNELS;
            let rows = first..channels.min(first + CHANNELS);
            // SAFETY: each task has channels of its own, of the state and of the outputs of each token.
            let state = unsafe { to.part(first * row..rows.end * row) };
            state.copy_from_slice(&from[first * row..][..state.len()]);
            for token in 0..tokens {
                let at = token * channels + first;
                // SAFETY: as above.
                let out = unsafe { out.part(at..at + rows.len()) };
                let shared = &step.shared[token * shared..][..shared];
                run(self.isa(), Token { step, at, first, shared, state: &mut *state, out });
            }
        });
    }
}

/// One token, some of the channels.
struct Token<'a> {
    step: &'a SelectiveScan<'a>,
    /// Of the first channel among those of all tokens.
    at: usize,
    first: usize,
    shared: &'a [f32],
    state: &'a mut [f32],
    out: &'a mut [f32],
}

impl VectorWork for Token<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let SelectiveScan { state: columns, inputs, step, decay, skip, .. } = *self.step;
        let (b, c) = self.shared[self.shared.len() - 2 * columns..].split_at(columns);
        let row = columns.next_multiple_of(LANES);
        let (inputs, steps) = (&inputs[self.at..], &step[self.at..]);
        let (decay, skip) = (&decay[self.first * row..], &skip[self.first..]);
        let channels = self.state.chunks_exact_mut(row).zip(decay.chunks_exact(row)).zip(self.out);
        for (i, ((state, decay), out)) in channels.enumerate() {
            let state: &mut [Lanes] = state.as_chunks_mut().0;
            let decay: &[Lanes] = decay.as_chunks().0;
            let (x, d) = (inputs[i], V::splat(steps[i]));
            let added = V::splat(steps[i] * x);
            let mut read = V::splat(0.0);
            let rows = state.iter_mut().zip(decay).zip(b.chunks(LANES)).zip(c.chunks(LANES));
            for (((s, rate), b), c) in rows {
                let kept = exp_of_small(V::from_lanes(rate).mul(d));
                let changed = V::from_lanes(s).mul(kept).fma(V::load(b), added);
                *s = changed.to_lanes();
                read = read.fma(changed, V::load(c));
            }
            *out = skip[i].mul_add(x, read.sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    const TOKENS: usize = 7;
    /// Values before B and C in the rows that have them.
    const BEFORE: usize = 3;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 29 + seed * 7) % 23) as f32 * 0.05 - 0.5).collect()
    }

    #[test]
    fn states_follow_the_formulas_in_any_steps_with_the_same_bits_everywhere() {
        for (channels, columns) in [(1, 1), (10, 12), (130, 16), (67, 33)] {
            let width = BEFORE + 2 * columns;
            let (inputs, shared) = (numbers(TOKENS * channels, 1), numbers(TOKENS * width, 2));
            let step: Vec<f32> = numbers(TOKENS * channels, 3).into_iter().map(|v| v + 0.55).collect();
            let rates: Vec<f32> = numbers(channels * columns, 4).into_iter().map(|v| v - 0.75).collect();
            let (decay, skip) = (SelectiveScan::padded(&rates, columns), numbers(channels, 5));
            let go = |cpu: &Cpu, steps: &[usize]| {
                let mut state = vec![0.0; SelectiveScan::state_len(channels, columns)];
                let (mut first, mut all) = (0, Vec::new());
                for tokens in steps {
                    let now = SelectiveScan {
                        channels,
                        state: columns,
                        inputs: &inputs[first * channels..][..tokens * channels],
                        step: &step[first * channels..][..tokens * channels],
                        shared: &shared[first * width..][..tokens * width],
                        decay: &decay,
                        skip: &skip,
                    };
                    let mut out = vec![f32::NAN; tokens * channels];
                    let mut next = vec![f32::NAN; state.len()];
                    cpu.selective_scan(&now, &state, &mut next, &mut out);
                    all.extend(out);
                    state = next;
                    first += tokens;
                }
                (all, state)
            };
            let whole = go(&Cpu::with_threads(Isa::SCALAR, 1).unwrap(), &[TOKENS]);
            let mut states = vec![0.0f64; channels * columns];
            for t in 0..TOKENS {
                for (i, state) in states.chunks_mut(columns).enumerate() {
                    let (x, d) = (f64::from(inputs[t * channels + i]), f64::from(step[t * channels + i]));
                    let of_all = |n: usize| f64::from(shared[t * width + BEFORE + n]);
                    let mut read = f64::from(skip[i]) * x;
                    for (n, s) in state.iter_mut().enumerate() {
                        *s = *s * (d * f64::from(rates[i * columns + n])).exp() + d * x * of_all(n);
                        read += *s * of_all(columns + n);
                    }
                    let found = f64::from(whole.0[t * channels + i]);
                    assert!((found - read).abs() < 1e-5, "{t} {i}: {found} {read}");
                }
            }
            for isa in Isa::available() {
                let cpu = Cpu::with_threads(isa, 3).unwrap();
                for steps in [&[TOKENS][..], &[1; TOKENS], &[3, 4]] {
                    assert_eq!(go(&cpu, steps), whole, "{isa:?} {steps:?} {channels} {columns}");
                }
            }
        }
    }
}
