//! A causal convolution of each channel: `out[t] = bias + sum over j of tap[j] * x[t - taps + 1 + j]`, added up in this order
//! of j, each step a fused multiply-add. What is before the first token comes from the state.

#![expect(clippy::needless_range_loop, reason = "iterators are not compiled for the instruction set")]

use crate::isa::Isa;
use crate::lanes::LANES;
use crate::math::silu_of;
use crate::vector::{Vector, VectorWork, run};

/// Vectors of channels that are computed side by side.
const STRIP: usize = 4;

/// Channels that all rows have in turn: their filters stay in the nearest cache.
const PART: usize = 1024;

/// The filters of all channels.
#[derive(Debug, Clone, Copy)]
pub struct ShortConv<'a> {
    /// `taps` x `channels`, that of the oldest token first.
    pub taps: &'a [f32],
    /// One value per channel.
    pub bias: Option<&'a [f32]>,
    /// Number of channels.
    pub channels: usize,
    /// Whether the result goes through SiLU.
    pub silu: bool,
}

impl ShortConv<'_> {
    /// Tokens before the current one that are seen.
    pub const fn past(&self) -> usize {
        (self.taps.len() / self.channels).saturating_sub(1)
    }

    /// The results for the rows of `x` (tokens x `channels`) from row `token` on, as many as `out` has, behind the rows `past`
    /// ([`ShortConv::past`] x `channels`).
    ///
    /// # Panics
    /// When these are not rows of `channels` values.
    pub fn rows(&self, isa: Isa, past: &[f32], x: &[f32], token: usize, out: &mut [f32]) {
        let ShortConv { taps, bias, channels, silu } = *self;
        let whole = past.len() == self.past() * channels && out.len().is_multiple_of(channels);
        assert!(whole, "not rows of {channels}");
        run(isa, Rows { taps, bias, channels, past, x, token, silu, out });
    }
}

/// The last rows of `past` and `x` behind it, as many as `next` has; rows of any width.
///
/// # Panics
/// When `past` and `next` have different lengths.
pub fn keep_last(past: &[f32], x: &[f32], next: &mut [f32]) {
    assert_eq!(past.len(), next.len(), "states of different lengths");
    let kept = next.len().saturating_sub(x.len());
    let (from_past, from_x) = next.split_at_mut(kept);
    from_past.copy_from_slice(&past[past.len() - kept..]);
    from_x.copy_from_slice(&x[x.len() - from_x.len()..]);
}

struct Rows<'a> {
    taps: &'a [f32],
    bias: Option<&'a [f32]>,
    channels: usize,
    past: &'a [f32],
    x: &'a [f32],
    token: usize,
    silu: bool,
    out: &'a mut [f32],
}

impl VectorWork for Rows<'_> {
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        let (channels, tokens) = (self.channels, self.out.len() / self.channels);
        for start in (0..channels).step_by(PART) {
            for token in 0..tokens {
                self.part::<V>(token, start, channels.min(start + PART));
            }
        }
    }
}

impl Rows<'_> {
    /// The channels `start..end` of a row.
    #[inline(always)]
    fn part<V: Vector>(&mut self, row: usize, start: usize, end: usize) {
        let mut at = start;
        while at + STRIP * LANES <= end {
            self.vectors::<V, STRIP>(row, at, at + STRIP * LANES);
            at += STRIP * LANES;
        }
        while at < end {
            self.vectors::<V, 1>(row, at, end.min(at + LANES));
            at += LANES;
        }
    }

    /// `N` vectors of channels, or, where `N` is 1, fewer channels.
    ///
    /// Loops over numbers: what closures and iterators call is not compiled for the instruction set.
    #[inline(always)]
    fn vectors<V: Vector, const N: usize>(&mut self, row: usize, start: usize, end: usize) {
        let channels = self.channels;
        let mut sums = [V::splat(0.0); N];
        if let Some(bias) = self.bias {
            sums = load(&bias[start..end]);
        }
        let before = self.past.len() / channels;
        for j in 0..self.taps.len() / channels {
            let at = self.token + row + j;
            let (rows, at) = if at < before { (self.past, at) } else { (self.x, at - before) };
            let x = load::<V, N>(&rows[at * channels + start..at * channels + end]);
            let taps = load::<V, N>(&self.taps[j * channels + start..j * channels + end]);
            for i in 0..N {
                sums[i] = sums[i].fma(taps[i], x[i]);
            }
        }
        if self.silu {
            for i in 0..N {
                sums[i] = silu_of(sums[i]);
            }
        }
        let out = &mut self.out[row * channels + start..row * channels + end];
        if out.len() == N * LANES {
            let out = out.as_chunks_mut::<LANES>().0;
            for i in 0..N {
                out[i] = sums[i].to_lanes();
            }
        } else {
            let lanes = sums[0].to_lanes();
            out.copy_from_slice(&lanes[..out.len()]);
        }
    }
}

/// `16 N` values, or, where `N` is 1, fewer.
#[inline(always)]
fn load<V: Vector, const N: usize>(values: &[f32]) -> [V; N] {
    let mut vectors = [V::splat(0.0); N];
    let (whole, rest) = values.as_chunks::<LANES>();
    if whole.len() == N {
        for i in 0..N {
            vectors[i] = V::from_lanes(&whole[i]);
        }
    } else {
        vectors[0] = V::load(rest);
    }
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 37 + seed * 11) % 19) as f32 * 0.25 - 2.0).collect()
    }

    /// All rows of `x` in steps of so many, from a state of zeros.
    fn in_steps(isa: Isa, conv: &ShortConv<'_>, x: &[f32], steps: &[usize]) -> Vec<f32> {
        let channels = conv.channels;
        let (mut past, mut rest, mut all) = (vec![0.0; conv.past() * channels], x, Vec::new());
        for step in steps {
            let (now, later) = rest.split_at(step * channels);
            // In two calls, as two threads would have it.
            for tokens in [0..step / 2, step / 2..*step] {
                let mut out = vec![f32::NAN; tokens.len() * channels];
                conv.rows(isa, &past, now, tokens.start, &mut out);
                all.extend(out);
            }
            let mut next = vec![f32::NAN; past.len()];
            keep_last(&past, now, &mut next);
            (past, rest) = (next, later);
        }
        all
    }

    #[test]
    fn a_channel_is_the_sum_of_its_last_inputs_in_any_steps_on_every_instruction_set() {
        for (channels, taps, silu) in [(1, 1, false), (5, 4, false), (37, 3, true), (64, 4, true)] {
            let (filter, bias) = (numbers(taps * channels, 1), numbers(channels, 2));
            let conv = ShortConv { taps: &filter, bias: Some(&bias), channels, silu };
            let x = numbers(7 * channels, 3);
            let whole = in_steps(Isa::SCALAR, &conv, &x, &[7]);
            for t in 0..7 {
                for c in 0..channels {
                    let mut sum = f64::from(bias[c]);
                    for j in 0..taps {
                        let at = (t + j + 1).checked_sub(taps);
                        sum += at.map_or(0.0, |at| {
                            f64::from(filter[j * channels + c]) * f64::from(x[at * channels + c])
                        });
                    }
                    let expected = if silu { sum / (1.0 + (-sum).exp()) } else { sum };
                    assert!((f64::from(whole[t * channels + c]) - expected).abs() < 1e-5, "{t} {c}");
                }
            }
            for isa in Isa::available() {
                for steps in [&[7][..], &[1; 7], &[2, 5], &[6, 1]] {
                    assert_eq!(in_steps(isa, &conv, &x, steps), whole, "{isa:?} {steps:?}");
                }
            }
        }
    }
}
