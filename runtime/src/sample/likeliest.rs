//! Choosing where only the likeliest tokens are known, as of logits that are on another device: the same token as of all logits, or none.

use super::Sampler;
use super::candidate::Candidate;
use super::chain::relative;
use crate::error::Result;

/// The likeliest tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Likeliest {
    /// Tokens and their logits, the likeliest first and of equals the lowest id, as the sampler ranks them.
    pub tokens: Vec<(u32, f32)>,
    /// Whether no other token can be chosen, as its logit is NaN or negative infinity.
    pub is_all: bool,
    /// The sum of the probabilities of all tokens, relative to the likeliest one's. Right to [`ROUNDED`].
    pub total: f64,
}

/// How far a sum of exponentials in 32 bits is off at most, relatively. That of a graphics processor is within `3 + 2 |x|` units in the
/// last place (Vulkan specification, "Precision and Operation of SPIR-V Instructions"; the Metal specification says the same). Weighted with their
/// probabilities, the `|x|` of 300 000 tokens are below 13 on average; with differences and a tree of 14 sums that is 4e-6.
pub const ROUNDED: f64 = 1e-5;

impl Sampler {
    /// Whether the `count` likeliest tokens may be enough to choose one.
    pub fn may_choose_of(&self, count: usize) -> bool {
        !self.changes_logits()
            && match self.options.top_k {
                0 => self.options.top_p < 1.0 || self.options.min_p > 0.0,
                k => k < count,
            }
    }

    /// The token that [`Sampler::sample`] would choose of all logits. `None` where that depends on logits that are not known here; then
    /// nothing was drawn.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn sample_of_likeliest(&mut self, likeliest: &Likeliest) -> Result<Option<u32>> {
        self.candidates.clear();
        self.candidates.extend(likeliest.tokens.iter().map(|&(id, logit)| Candidate { id, logit }));
        if !likeliest.is_all && !self.cuts_within(likeliest.total) {
            return Ok(None);
        }
        // Where nothing is sorted, a random number stands for a token by the order of ids.
        self.candidates.sort_unstable_by_key(|candidate| candidate.id);
        let of_all = !likeliest.is_all && self.options.top_k == 0;
        self.choose(of_all.then_some(likeliest.total)).map(Some)
    }

    /// Whether the cuts leave none but candidates, which are in the order of their ranks, and whether it is certain which of them,
    /// although `total` is rounded.
    fn cuts_within(&self, total: f64) -> bool {
        let (Some(best), Some(last)) = (self.candidates.first(), self.candidates.last()) else {
            return false;
        };
        let (best, last) = (best.logit, last.logit);
        if self.options.top_k > 0 {
            return self.options.top_k < self.candidates.len();
        }
        if self.options.top_p >= 1.0 {
            let difference = f64::from(last) - f64::from(best);
            return self.options.min_p > 0.0 && difference < self.least_difference();
        }
        let enough = total * f64::from(self.options.top_p);
        let mut sum = 0.0;
        for candidate in &self.candidates {
            let before = sum;
            sum += relative(candidate.logit, best, 1.0);
            if sum >= enough {
                return before < enough * (1.0 - ROUNDED) && sum >= enough * (1.0 + ROUNDED);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::SamplerOptions;

    const COUNT: usize = 100;

    /// What a device would find.
    fn likeliest(logits: &[f32]) -> Likeliest {
        let mut tokens: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
        tokens.retain(|(_, logit)| *logit > f32::NEG_INFINITY);
        tokens.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        let best = tokens[0].1;
        // Off by as much as is allowed for.
        let total: f32 = tokens.iter().map(|(_, logit)| (logit - best).exp()).sum::<f32>() * (1.0 + 8e-6);
        let is_all = tokens.len() < COUNT;
        tokens.truncate(COUNT);
        Likeliest { tokens, is_all, total: f64::from(total) }
    }

    fn sampler(temperature: f32, top_k: usize, top_p: f32, min_p: f32, seed: u64) -> Sampler {
        Sampler::new(SamplerOptions::new(temperature, top_k, top_p, min_p, seed).unwrap())
    }

    /// Logits of which few are likely, without order.
    fn logits(count: usize) -> Vec<f32> {
        (0..count).map(|i| 8.0 - 4.0 * (1.0 + (i * 7919 % count) as f32).ln()).collect()
    }

    #[test]
    fn the_token_is_that_of_all_logits_wherever_one_is_chosen() {
        let settings = [
            (0.7, 40, 0.9, 0.0),
            (1.0, 99, 1.0, 0.0),
            (1.5, 5, 0.8, 0.2),
            (1.0, 0, 0.9, 0.0),
            (3.0, 0, 0.95, 0.01),
            (1.0, 0, 1.0, 0.001),
        ];
        for logits in [logits(2000), logits(60), vec![1.5; 500]] {
            let likeliest = likeliest(&logits);
            for (temperature, top_k, top_p, min_p) in settings {
                let mut chosen = 0;
                for seed in 0..200 {
                    let mut all = sampler(temperature, top_k, top_p, min_p, seed);
                    let mut some = all.clone();
                    if let Some(token) = some.sample_of_likeliest(&likeliest).unwrap() {
                        assert_eq!(token, all.sample(&logits).unwrap(), "{:?}", all.options);
                        chosen += 1;
                    }
                }
                // Of tokens that are all as likely, cuts by probability leave more than the device found.
                let enough = top_k > 0 || logits.len() != 500;
                assert_eq!(chosen, if enough { 200 } else { 0 }, "{top_k} {top_p} {min_p}");
            }
        }
    }

    #[test]
    fn a_cut_that_rounding_could_move_is_left_to_all_logits_and_draws_nothing() {
        // Half of the whole lies exactly behind the second token.
        let logits = [0.0, 0.0, 0.0, 0.0];
        let known = Likeliest { tokens: (0..4).map(|id| (id, 0.0)).collect(), is_all: false, total: 4.0 };
        for seed in 0..20 {
            let mut some = sampler(1.0, 0, 0.5, 0.0, seed);
            assert_eq!(some.sample_of_likeliest(&known).unwrap(), None);
            let mut all = sampler(1.0, 0, 0.5, 0.0, seed);
            assert_eq!(some.sample(&logits).unwrap(), all.sample(&logits).unwrap());
        }
    }

    #[test]
    fn settings_that_need_all_logits_are_known_beforehand() {
        for (top_k, top_p, min_p, may) in [
            (0, 1.0, 0.0, false),
            (0, 0.9, 0.0, true),
            (0, 1.0, 0.1, true),
            (COUNT - 1, 1.0, 0.0, true),
            (COUNT, 0.9, 0.1, false),
        ] {
            assert_eq!(
                sampler(1.0, top_k, top_p, min_p, 0).may_choose_of(COUNT),
                may,
                "{top_k} {top_p} {min_p}"
            );
        }
    }

    #[test]
    fn no_usable_logit_is_an_error() {
        let none = Likeliest { tokens: Vec::new(), is_all: true, total: 0.0 };
        assert!(sampler(1.0, 40, 0.9, 0.0, 1).sample_of_likeliest(&none).is_err());
    }
}
