//! How far a step goes (Adam, arXiv 1412.6980): in f64 and one value at a time, so that every processor has the same bits.

use std::collections::BTreeMap;

use qsf_format::TensorId;

use super::factors::Factors;

/// How much of the mean gradient, and of the mean square, a step forgets.
const FORGETS: f64 = 0.1;
const FORGETS_SQUARE: f64 = 0.001;
/// Keeps values without a gradient where they are.
const EPSILON: f64 = 1e-12;

/// How far tuning is: what it goes on from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TuningState {
    /// Steps that are done.
    pub steps: u32,
    /// What everything is multiplied by now.
    pub factors: Factors,
    /// Of each factor the mean gradient, and the mean of its square.
    pub means: BTreeMap<TensorId, Vec<[f64; 2]>>,
}

impl TuningState {
    /// Before the first step: from these factors.
    pub fn new(factors: Factors) -> TuningState {
        let means = factors.iter().map(|(id, factors)| (id, vec![[0.0; 2]; factors.len()])).collect();
        TuningState { steps: 0, factors, means }
    }

    /// Whether it is of as many factors of the same tensors.
    pub fn is_of(&self, factors: &Factors) -> bool {
        let lens = |factors: &Factors| factors.iter().map(|(id, of)| (id, of.len())).collect::<Vec<_>>();
        let means: Vec<(TensorId, usize)> = self.means.iter().map(|(id, means)| (*id, means.len())).collect();
        lens(&self.factors) == lens(factors) && means == lens(factors)
    }

    /// Moves factors against the gradients at them, each by about `rate`.
    pub(super) fn step(&mut self, gradients: &BTreeMap<TensorId, Vec<f64>>, rate: f64) {
        self.steps += 1;
        let whole = |forgets: f64| 1.0 - libm::pow(1.0 - forgets, f64::from(self.steps));
        let (mean_part, square_part) = (whole(FORGETS), whole(FORGETS_SQUARE));
        for (id, gradients) in gradients {
            let (Some(factors), Some(means)) = (self.factors.of_mut(*id), self.means.get_mut(id)) else {
                continue;
            };
            for ((factor, gradient), [mean, square]) in factors.iter_mut().zip(gradients).zip(means) {
                *mean += FORGETS * (gradient - *mean);
                *square += FORGETS_SQUARE * (gradient * gradient - *square);
                let length = (*square / square_part).sqrt() + EPSILON;
                *factor = (f64::from(*factor) - rate * (*mean / mean_part) / length) as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::TensorKind;

    use super::*;

    /// The first step has the length of the rate whatever the gradient's; without a gradient there is none.
    #[test]
    fn a_step_is_as_long_as_the_rate() {
        let id = TensorId::of_layer(0, TensorKind::AttnNorm);
        let mut state = TuningState::new(Factors::from_iter([(id, vec![1.0; 3])]));
        let gradients = BTreeMap::from([(id, vec![1e-6, -5.0, 0.0])]);
        for expected in [[0.99, 1.01, 1.0], [0.98, 1.02, 1.0]] {
            state.step(&gradients, 0.01);
            for (factor, expected) in state.factors.of(id).unwrap().iter().zip(expected) {
                assert!((factor - expected).abs() < 2e-6, "{factor} {expected}");
            }
        }
        assert_eq!(state.factors.of(id).unwrap()[2], 1.0);
    }
}
