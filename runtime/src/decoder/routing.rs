//! Which experts a token goes through, and with what weight.

use qsf_format::ModelConfig;

use crate::error::Result;
use qsf_cpu::math::softmax_in_place;
use qsf_cpu::{Isa, zeros};

/// Choices of the tokens of one step, and rows on their way to an expert and back. Empty for models without experts.
#[derive(Default)]
pub(super) struct Routing {
    /// Tokens x experts: the router's output, then probabilities.
    pub logits: Vec<f32>,
    /// Tokens x used: expert and weight.
    chosen: Vec<(usize, f32)>,
    /// Tokens x hidden: inputs of one expert.
    pub input: Vec<f32>,
    /// Its outputs.
    pub output: Vec<f32>,
}

impl Routing {
    /// Room for `batch` tokens.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(config: &ModelConfig, batch: usize) -> Result<Routing> {
        let Some(experts) = &config.experts else { return Ok(Routing::default()) };
        let what = "activations of experts";
        let rows = batch.saturating_mul(config.hidden as usize);
        Ok(Routing {
            logits: zeros(batch.saturating_mul(experts.count as usize), what)?,
            chosen: vec![(0, 0.0); batch.saturating_mul(experts.used as usize)],
            input: zeros(rows, what)?,
            output: zeros(rows, what)?,
        })
    }

    /// The `used` likeliest experts of each token, of equal ones the first; their weights are probabilities, divided by
    /// their sum when `normalize`.
    pub fn choose(&mut self, isa: Isa, tokens: usize, experts: usize, used: usize, normalize: bool) {
        let rows = self.logits.chunks_exact_mut(experts).zip(self.chosen.chunks_exact_mut(used));
        for (logits, chosen) in rows.take(tokens) {
            softmax_in_place(isa, logits);
            for slot in chosen.iter_mut() {
                let mut best = 0;
                for (e, &p) in logits.iter().enumerate() {
                    if p > logits[best] {
                        best = e;
                    }
                }
                *slot = (best, logits[best]);
                logits[best] = f32::NEG_INFINITY;
            }
            if normalize {
                let sum: f32 = chosen.iter().map(|(_, weight)| weight).sum();
                chosen.iter_mut().for_each(|(_, weight)| *weight /= sum);
            }
        }
    }

    /// The weight of expert `e` for token `t`, where it was chosen.
    pub fn weight(&self, t: usize, e: usize, used: usize) -> Option<f32> {
        self.chosen[t * used..][..used].iter().find(|(chosen, _)| *chosen == e).map(|(_, weight)| *weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(normalize: bool) -> Routing {
        let mut routing = Routing {
            logits: vec![0.0, 2.0, 1.0, 2.0, 5.0, 0.0, 0.0, 0.0],
            chosen: vec![(9, 9.0); 4],
            ..Routing::default()
        };
        routing.choose(Isa::best(), 2, 4, 2, normalize);
        routing
    }

    #[test]
    fn a_token_goes_to_its_likeliest_experts_with_their_probabilities() {
        let routing = routed(false);
        let total = 1.0 + 2f32.exp() * 2.0 + 1f32.exp();
        for e in [1, 3] {
            let weight = routing.weight(0, e, 2).unwrap();
            assert!((weight - 2f32.exp() / total).abs() < 1e-6, "{weight}");
        }
        assert_eq!((routing.weight(0, 0, 2), routing.weight(0, 2, 2)), (None, None));
        assert!(
            routing.weight(1, 0, 2).is_some() && routing.weight(1, 1, 2).is_some(),
            "of equal ones the first"
        );
    }

    #[test]
    fn normalized_weights_sum_to_one() {
        let routing = routed(true);
        assert_eq!((routing.weight(0, 1, 2), routing.weight(0, 3, 2)), (Some(0.5), Some(0.5)));
    }

    #[test]
    fn a_router_that_computes_nothing_still_chooses_experts_that_exist() {
        let mut routing =
            Routing { logits: vec![f32::NAN; 4], chosen: vec![(9, 9.0); 2], ..Routing::default() };
        routing.choose(Isa::best(), 1, 4, 2, true);
        assert!(routing.weight(0, 0, 2).is_some_and(f32::is_nan), "and the NaN is not hidden");
    }
}
