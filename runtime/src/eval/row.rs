//! Logits of one position: log-probabilities and how two distributions differ. Sums are taken in f64 over short runs of f32
//! lanes, so that a divergence of 1e-6 is still exact to a few per cent at a vocabulary of 256 k.

use qsf_cpu::lanes::{LANES, Lanes, load, sum};
use qsf_cpu::math::{exp, log_sum_exp};
use qsf_cpu::{Isa, Vectorized};

/// How far the distribution of `other` is from the one of `base` at one position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RowDifference {
    /// KL(base || other) in nats.
    pub kl: f64,
    /// Whether both put the same token first.
    pub same_top: bool,
    /// Probability of the true next token by `other` less that by `base`.
    pub delta_p: f64,
    /// Negative log-likelihood of the true next token by `base`.
    pub base_nll: f64,
    /// Negative log-likelihood of the true next token by `other`.
    pub nll: f64,
}

impl RowDifference {
    /// The same with what `base` says of the true next token, where that is known better than its logits are.
    pub fn with_base_nll(self, base_nll: f64) -> RowDifference {
        RowDifference { delta_p: (-self.nll).exp() - (-base_nll).exp(), base_nll, ..self }
    }
}

/// Negative log-likelihood of token `target`.
pub(crate) fn nll(isa: Isa, logits: &[f32], target: usize) -> f64 {
    log_sum_exp(isa, logits) - f64::from(logits[target])
}

/// Compares two rows of logits.
pub(super) fn compare(isa: Isa, base: &[f32], other: &[f32], target: usize) -> RowDifference {
    let (base_lse, other_lse) = (log_sum_exp(isa, base), log_sum_exp(isa, other));
    // KL = sum p (b - o) - (lse(b) - lse(o)) with p = exp(b - lse(b)); the sum's own weights normalise it.
    let shift = base_lse as f32;
    let (weighted, total) = isa.vectorize(WeightedDifference { base, other, shift });
    let kl = weighted / total - (base_lse - other_lse);
    let base_nll = base_lse - f64::from(base[target]);
    let nll = other_lse - f64::from(other[target]);
    RowDifference {
        // Rounding can leave a tiny negative number where the two are equal. Not `max`: that would make NaN a zero.
        kl: if kl < 0.0 { 0.0 } else { kl },
        same_top: argmax(base) == argmax(other),
        delta_p: (-nll).exp() - (-base_nll).exp(),
        base_nll,
        nll,
    }
}

/// KL(base || other) in nats between the distributions that two rows of logits stand for.
pub fn divergence(isa: Isa, base: &[f32], other: &[f32]) -> f64 {
    compare(isa, base, other, 0).kl
}

/// First index of the largest value.
pub(crate) fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (i, v) in values.iter().enumerate() {
        if *v > values[best] {
            best = i;
        }
    }
    best
}

/// `sum e (b - o)` and `sum e` with `e = exp(b - shift)`.
struct WeightedDifference<'a> {
    base: &'a [f32],
    other: &'a [f32],
    shift: f32,
}

/// Values summed in f32 lanes before they go to f64.
const RUN: usize = 32 * LANES;

impl Vectorized for WeightedDifference<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    fn run(self) -> (f64, f64) {
        let (mut weighted, mut total) = (0.0, 0.0);
        for (base, other) in self.base.chunks(RUN).zip(self.other.chunks(RUN)) {
            let mut weighted_lanes: Lanes = [0.0; LANES];
            let mut total_lanes: Lanes = [0.0; LANES];
            for (b, o) in base.chunks(LANES).zip(other.chunks(LANES)) {
                let count = b.len();
                let (b, o) = (load(b), load(o));
                for i in 0..LANES {
                    let e = if i < count { exp(b[i] - self.shift) } else { 0.0 };
                    weighted_lanes[i] = e.mul_add(b[i] - o[i], weighted_lanes[i]);
                    total_lanes[i] += e;
                }
            }
            weighted += f64::from(sum(weighted_lanes));
            total += f64::from(sum(total_lanes));
        }
        (weighted, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logits(seed: u64, n: usize) -> Vec<f32> {
        let mut state = seed;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 12.0
            })
            .collect()
    }

    fn naive_kl(base: &[f32], other: &[f32]) -> f64 {
        let lse = |v: &[f32]| v.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln();
        let (lb, lo) = (lse(base), lse(other));
        base.iter()
            .zip(other)
            .map(|(&b, &o)| (f64::from(b) - lb).exp() * ((f64::from(b) - lb) - (f64::from(o) - lo)))
            .sum()
    }

    #[test]
    fn divergence_equals_the_definition_for_large_and_tiny_differences() {
        for (n, noise) in [(3, 1.0), (1000, 0.5), (16_385, 0.01), (50_000, 0.001)] {
            let base = logits(1, n);
            let other: Vec<f32> = base.iter().zip(logits(2, n)).map(|(b, d)| b + d * noise).collect();
            let expected = naive_kl(&base, &other);
            let found = compare(Isa::best(), &base, &other, 0).kl;
            assert!((found - expected).abs() < 1e-7 + 1e-3 * expected, "{n}: {found} for {expected}");
        }
    }

    #[test]
    fn equal_rows_have_no_divergence_and_agree() {
        let base = logits(3, 20_000);
        let row = compare(Isa::best(), &base, &base, 7);
        assert_eq!((row.kl, row.same_top, row.delta_p), (0.0, true, 0.0));
    }

    #[test]
    fn broken_logits_are_never_reported_as_a_perfect_match() {
        let row = compare(Isa::best(), &[f32::NAN, 1.0, 2.0], &[1.0, f32::NAN, 2.0], 2);
        assert!(!row.kl.is_finite() && !row.nll.is_finite() && !row.base_nll.is_finite(), "{row:?}");
    }

    #[test]
    fn likelihood_of_a_certain_token_is_near_zero_loss() {
        let mut row = vec![0.0; 100];
        row[42] = 50.0;
        assert!(nll(Isa::best(), &row, 42).abs() < 1e-6);
        assert!((nll(Isa::best(), &row, 0) - 50.0).abs() < 1e-6);
    }
}
