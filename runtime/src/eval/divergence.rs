//! Divergence of a model from another over many positions.

use serde::{Deserialize, Serialize};

use super::row::RowDifference;

/// Difference of two models over all scored positions. The field names are those of `qsf-eval --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divergence {
    /// Perplexity of the base model on the same positions.
    pub base_ppl: f64,
    /// KL divergence from the base.
    pub kld: KlDivergence,
    /// Positions, in per cent, where both models put the same token first.
    pub top1: f64,
    /// Change of the probability of the true next token.
    pub delta_p: DeltaP,
}

/// KL(base || model) in nats per position.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KlDivergence {
    /// Mean.
    pub mean: f64,
    /// Standard error of the mean.
    pub stderr: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// Change of the probability of the true next token, model less base, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DeltaP {
    /// Mean.
    pub mean: f64,
    /// Root mean square.
    pub rms: f64,
}

/// Sums over the scored positions of one chunk.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DivergenceSums {
    /// Divergence at each position: quantiles need all.
    pub kl: Vec<f64>,
    pub same_top: u64,
    pub delta_p: f64,
    pub delta_p_squared: f64,
    pub base_nll: f64,
}

impl DivergenceSums {
    pub fn add(&mut self, row: &RowDifference) {
        self.kl.push(row.kl);
        self.same_top += u64::from(row.same_top);
        self.delta_p += row.delta_p;
        self.delta_p_squared += row.delta_p * row.delta_p;
        self.base_nll += row.base_nll;
    }
}

impl Divergence {
    /// The summary of chunks, whose sums are added up in this order; `None` without positions.
    pub(super) fn of<'a>(chunks: impl Iterator<Item = &'a DivergenceSums>) -> Option<Divergence> {
        let mut all = DivergenceSums::default();
        for chunk in chunks {
            all.kl.extend(&chunk.kl);
            all.same_top += chunk.same_top;
            all.delta_p += chunk.delta_p;
            all.delta_p_squared += chunk.delta_p_squared;
            all.base_nll += chunk.base_nll;
        }
        let n = all.kl.len() as f64;
        all.kl.sort_by(f64::total_cmp);
        let max = *all.kl.last()?;
        let mean = all.kl.iter().sum::<f64>() / n;
        let variance = all.kl.iter().map(|kl| (kl - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Some(Divergence {
            base_ppl: (all.base_nll / n).exp(),
            kld: KlDivergence {
                mean,
                stderr: (variance / n).sqrt(),
                p50: percentile(&all.kl, 0.5),
                p90: percentile(&all.kl, 0.9),
                p99: percentile(&all.kl, 0.99),
                p999: percentile(&all.kl, 0.999),
                max,
            },
            top1: 100.0 * all.same_top as f64 / n,
            delta_p: DeltaP { mean: 100.0 * all.delta_p / n, rms: 100.0 * (all.delta_p_squared / n).sqrt() },
        })
    }
}

/// Value below which a fraction `p` of the sorted values lies, linear between neighbours.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let at = p * (sorted.len() - 1) as f64;
    let (low, fraction) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + fraction * (sorted[high] - sorted[low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_neighbours() {
        let values: Vec<f64> = (0..=10).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), 5.0);
        assert!((percentile(&values, 0.99) - 9.9).abs() < 1e-12);
        assert_eq!(percentile(&[3.0], 0.999), 3.0);
    }

    #[test]
    fn a_summary_counts_every_position_once() {
        let chunks = [(0.1, true, -0.2), (0.3, false, 0.1)].map(|(kl, same_top, delta_p)| {
            let mut sums = DivergenceSums::default();
            sums.add(&RowDifference { kl, same_top, delta_p, base_nll: 1.0, nll: 1.0 });
            sums
        });
        let d = Divergence::of(chunks.iter()).unwrap();
        assert!((d.kld.mean - 0.2).abs() < 1e-12 && (d.kld.stderr - 0.1).abs() < 1e-12);
        assert_eq!((d.top1, d.kld.max), (50.0, 0.3));
        assert!((d.delta_p.mean + 5.0).abs() < 1e-9);
        assert!((d.base_ppl - 1f64.exp()).abs() < 1e-12);
        assert!(Divergence::of([DivergenceSums::default()].iter()).is_none());
    }
}
