//! Which experts a token goes through, and with what weight.

use qsf_format::{ExpertGroups, Experts, ModelConfig, RouterScore};

use crate::error::Result;
use qsf_cpu::math::{exp, sigmoid, softmax_in_place};
use qsf_cpu::{Isa, zeros};

/// Choices of the tokens of one step, and rows on their way to an expert and back. Empty for models without experts.
#[derive(Default)]
pub struct Routing {
    /// Tokens x experts: the router's output, then probabilities.
    pub logits: Vec<f32>,
    /// Tokens x used: expert and weight.
    chosen: Vec<(usize, f32)>,
    /// Tokens x hidden: inputs of one expert.
    pub input: Vec<f32>,
    /// Its outputs.
    pub output: Vec<f32>,
    /// Tokens x hidden: what the router, then the experts read, where it is not what all of a layer's feed-forward does.
    pub own: Vec<f32>,
    /// How much one token wants each expert.
    wishes: Vec<f32>,
    /// Scores of its groups of experts, then which of them are kept.
    groups: Vec<f32>,
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
            own: zeros(if experts.beside_ffn { rows } else { 0 }, what)?,
            wishes: zeros(experts.count as usize, what)?,
            groups: zeros(experts.groups.map_or(0, |groups| 2 * groups.count as usize), what)?,
        })
    }

    /// The experts of each token and their weights, from the router's outputs, at last times `factors`. Of equal ones the first is
    /// chosen.
    pub fn choose(
        &mut self,
        isa: Isa,
        tokens: usize,
        experts: &Experts,
        choice_bias: Option<&[f32]>,
        factors: Option<&[f32]>,
    ) {
        let (count, used) = (experts.count as usize, experts.used as usize);
        let rows = self.logits.chunks_exact_mut(count).zip(self.chosen.chunks_exact_mut(used));
        for (scores, chosen) in rows.take(tokens) {
            match experts.score {
                RouterScore::Softmax => softmax_in_place(isa, scores),
                RouterScore::Sigmoid => scores.iter_mut().for_each(|score| *score = sigmoid(*score)),
                RouterScore::SparseMixer => {
                    sparse_mixer(scores, experts.margin.unwrap_or_default(), chosen);
                    continue;
                }
            }
            let wish = &mut self.wishes[..count];
            wish.copy_from_slice(scores);
            for (wish, bias) in wish.iter_mut().zip(choice_bias.unwrap_or_default()) {
                *wish += bias;
            }
            if let Some(groups) = experts.groups {
                leave_out_groups(wish, groups, &mut self.groups);
            }
            for slot in chosen.iter_mut() {
                let best = first_of_the_largest(wish);
                *slot = (best, scores[best]);
                wish[best] = f32::NEG_INFINITY;
            }
            if experts.normalize_weights {
                let sum: f32 = chosen.iter().map(|(_, weight)| weight).sum();
                chosen.iter_mut().for_each(|(_, weight)| *weight /= sum);
            }
            if let Some(scale) = experts.weight_scale {
                chosen.iter_mut().for_each(|(_, weight)| *weight *= scale);
            }
            if let Some(factors) = factors {
                chosen.iter_mut().for_each(|(expert, weight)| *weight *= factors[*expert]);
            }
        }
    }

    /// The weight of expert `e` for token `t`, where it was chosen.
    pub fn weight(&self, t: usize, e: usize, used: usize) -> Option<f32> {
        self.chosen[t * used..][..used].iter().find(|(chosen, _)| *chosen == e).map(|(_, weight)| *weight)
    }
}

/// The expert of the largest score, then that of the largest of the others (arXiv 2409.12136). Each weighs its part of the softmax
/// over the scores, without those chosen before, that are no further below it than `margin` of the larger of it and themselves.
fn sparse_mixer(scores: &mut [f32], margin: f32, chosen: &mut [(usize, f32)]) {
    for at in 0..chosen.len() {
        let taken = |e: usize, chosen: &[(usize, f32)]| chosen[..at].iter().any(|(taken, _)| *taken == e);
        let wish = |e: usize| if taken(e, chosen) { f32::NEG_INFINITY } else { scores[e] };
        let best = (1..scores.len()).fold(0, |best, e| if wish(e) > wish(best) { e } else { best });
        let largest = scores[best];
        let is_far = |score: f32| (largest - score) / score.abs().max(largest) > margin;
        let near = (0..scores.len()).filter(|&e| !taken(e, chosen) && !is_far(scores[e]));
        let sum: f32 = near.map(|e| exp(scores[e] - largest)).sum();
        chosen[at] = (best, 1.0 / sum);
    }
}

/// Makes the wishes of all groups but the best minus infinity. The score of a group is the sum of its `best` largest wishes.
fn leave_out_groups(wishes: &mut [f32], groups: ExpertGroups, scores: &mut [f32]) {
    let ExpertGroups { count, used, best } = groups;
    let size = wishes.len() / count as usize;
    let (scores, kept) = scores.split_at_mut(count as usize);
    for (score, group) in scores.iter_mut().zip(wishes.chunks_exact(size)) {
        *score = sum_of_largest(group, best as usize);
    }
    kept.fill(0.0);
    for _ in 0..used {
        let best = first_of_the_largest(scores);
        (scores[best], kept[best]) = (f32::NEG_INFINITY, 1.0);
    }
    for (kept, group) in kept.iter().zip(wishes.chunks_exact_mut(size)) {
        if *kept == 0.0 {
            group.fill(f32::NEG_INFINITY);
        }
    }
}

/// The sum of the `many` largest values, each of which counts once.
fn sum_of_largest(values: &[f32], many: usize) -> f32 {
    let (mut sum, mut left, mut below) = (0.0, many, f32::INFINITY);
    while left > 0 {
        let largest = values.iter().copied().filter(|&value| value < below).fold(f32::NEG_INFINITY, f32::max);
        let there = values.iter().filter(|&&value| value == largest).count().clamp(1, left);
        sum += largest * there as f32;
        (left, below) = (left - there, largest);
    }
    sum
}

/// The place of the largest value, of equal ones the first. Where the first is no number, it is that.
fn first_of_the_largest(values: &[f32]) -> usize {
    let mut best = 0;
    for (at, &value) in values.iter().enumerate() {
        if value > values[best] {
            best = at;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What two of four experts weigh for tokens with these router outputs.
    fn routed(logits: &[f32], experts: Experts, bias: Option<&[f32]>) -> Routing {
        let experts = Experts { count: 4, used: 2, ffn: 1, ..experts };
        let config = ModelConfig { hidden: 1, experts: Some(experts.clone()), ..ModelConfig::default() };
        let tokens = logits.len() / 4;
        let mut routing = Routing::new(&config, tokens).unwrap();
        routing.logits.copy_from_slice(logits);
        routing.choose(Isa::best(), tokens, &experts, bias, None);
        routing
    }

    fn chosen(routing: &Routing, t: usize) -> Vec<usize> {
        (0..4).filter(|&e| routing.weight(t, e, 2).is_some()).collect()
    }

    const LOGITS: [f32; 8] = [0.0, 2.0, 1.0, 2.0, 5.0, 0.0, 0.0, 0.0];

    #[test]
    fn a_token_goes_to_its_likeliest_experts_with_their_probabilities() {
        let routing = routed(&LOGITS, Experts::default(), None);
        let total = 1.0 + 2f32.exp() * 2.0 + 1f32.exp();
        for e in [1, 3] {
            let weight = routing.weight(0, e, 2).unwrap();
            assert!((weight - 2f32.exp() / total).abs() < 1e-6, "{weight}");
        }
        assert_eq!(chosen(&routing, 0), [1, 3]);
        assert_eq!(chosen(&routing, 1), [0, 1], "of equal ones the first");
    }

    #[test]
    fn normalized_weights_sum_to_one_and_a_scale_comes_last() {
        let normalized = Experts { normalize_weights: true, ..Experts::default() };
        let routing = routed(&LOGITS, normalized.clone(), None);
        assert_eq!((routing.weight(0, 1, 2), routing.weight(0, 3, 2)), (Some(0.5), Some(0.5)));
        let routing = routed(&LOGITS, Experts { weight_scale: Some(3.0), ..normalized }, None);
        assert_eq!(routing.weight(0, 1, 2), Some(1.5));
    }

    #[test]
    fn a_bias_of_the_choice_changes_who_is_chosen_and_no_weight() {
        let experts = Experts { score: RouterScore::Sigmoid, choice_bias: true, ..Experts::default() };
        let routing = routed(&LOGITS[..4], experts, Some(&[1.0, 0.0, 0.5, 0.0]));
        assert_eq!(chosen(&routing, 0), [0, 2]);
        assert_eq!(routing.weight(0, 0, 2), Some(0.5));
    }

    #[test]
    fn a_sparse_mixer_weighs_each_of_two_among_those_that_are_near_it() {
        let mixer = Experts { score: RouterScore::SparseMixer, margin: Some(0.25), ..Experts::default() };
        // Of 4, 3.5 is near and 2.5 is not; of 3.5, 2.5 is not; of negative ones the size counts.
        let routing = routed(&[4.0, 2.5, 3.5, -9.0, -4.0, -9.0, -4.5, -5.5], mixer, None);
        let near = |below: f32| 1.0 / (1.0 + (-below).exp());
        assert_eq!((chosen(&routing, 0), chosen(&routing, 1)), (vec![0, 2], vec![0, 2]));
        let weights = [routing.weight(0, 0, 2), routing.weight(0, 2, 2), routing.weight(1, 2, 2)];
        for (weight, expected) in weights.iter().zip([near(0.5), 1.0, near(1.0)]) {
            assert!((weight.unwrap() - expected).abs() < 1e-6, "{weights:?}");
        }
    }

    #[test]
    fn experts_come_from_the_best_groups_by_their_largest_scores_or_sums_of_them() {
        let with = |best| {
            let groups = Some(ExpertGroups { count: 2, used: 1, best });
            let logits = [0.0, 3.0, 2.0, 2.0, -9.0, -9.0, 1.0, -9.0];
            routed(&logits, Experts { groups, score: RouterScore::Sigmoid, ..Experts::default() }, None)
        };
        assert_eq!(chosen(&with(1), 0), [0, 1]);
        assert_eq!(chosen(&with(2), 0), [2, 3]);
        assert_eq!(chosen(&with(1), 1), [2, 3]);
        assert_eq!(sum_of_largest(&[1.0, 3.0, 3.0, 2.0], 3), 8.0);
        assert_eq!(sum_of_largest(&[1.0, 3.0, 3.0], 1), 3.0);
    }

    #[test]
    fn a_router_that_computes_nothing_still_chooses_experts_that_exist() {
        let groups = Some(ExpertGroups { count: 2, used: 1, best: 2 });
        for experts in [Experts::default(), Experts { groups, ..Experts::default() }] {
            let routing = routed(&[f32::NAN; 4], Experts { normalize_weights: true, ..experts }, None);
            assert!(routing.weight(0, 0, 2).is_some_and(f32::is_nan), "and the NaN is not hidden");
        }
    }
}
