//! A causal convolution of each channel: `out[t] = bias + sum over j of tap[j] * x[t - taps + 1 + j]`, added up in this order
//! of j, each step a fused multiply-add. What is before the first token comes from the state.

use crate::isa::{Isa, Vectorized};
use crate::math::silu;

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

    /// The result for row `token` of `x` (tokens x `channels`), behind the rows `past` ([`ShortConv::past`] x `channels`).
    ///
    /// # Panics
    /// When these are not rows of `channels` values.
    pub fn row(&self, isa: Isa, past: &[f32], x: &[f32], token: usize, out: &mut [f32]) {
        let ShortConv { taps, bias, channels, silu } = *self;
        assert!(past.len() == self.past() * channels && out.len() == channels, "not rows of {channels}");
        isa.vectorize(Row { taps, bias, past, x, token, silu, out });
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

struct Row<'a> {
    taps: &'a [f32],
    bias: Option<&'a [f32]>,
    past: &'a [f32],
    x: &'a [f32],
    token: usize,
    silu: bool,
    out: &'a mut [f32],
}

impl Vectorized for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let channels = self.out.len();
        match self.bias {
            Some(bias) => self.out.copy_from_slice(bias),
            None => self.out.fill(0.0),
        }
        let before = self.past.len() / channels;
        for (j, taps) in self.taps.chunks_exact(channels).enumerate() {
            let at = self.token + j;
            let row = if at < before {
                &self.past[at * channels..][..channels]
            } else {
                &self.x[(at - before) * channels..][..channels]
            };
            for ((out, tap), x) in self.out.iter_mut().zip(taps).zip(row) {
                *out = tap.mul_add(*x, *out);
            }
        }
        if self.silu {
            self.out.iter_mut().for_each(|out| *out = silu(*out));
        }
    }
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
            for token in 0..*step {
                let mut out = vec![f32::NAN; channels];
                conv.row(isa, &past, now, token, &mut out);
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
