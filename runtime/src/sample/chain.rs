//! The steps from logits to a token: top-k, top-p, min-p, temperature, draw. The order is that of llama.cpp, so that
//! the same flags mean the same: the cuts see the model's own probabilities, before the temperature flattens them.

use std::collections::VecDeque;

use super::candidate::{Candidate, by_rank};
use super::{Rng, SamplerOptions};
use crate::error::{Result, RuntimeError};

/// Chooses tokens. Memory is taken at the first token and reused.
#[derive(Debug, Clone)]
pub struct Sampler {
    pub(super) options: SamplerOptions,
    rng: Rng,
    pub(super) candidates: Vec<Candidate>,
    weights: Vec<f64>,
    /// The last tokens, of which as many count as the penalties say; none without penalties.
    history: VecDeque<u32>,
    seen: Vec<u32>,
    /// Tokens that are never chosen, ascending.
    banned: Vec<u32>,
}

impl Sampler {
    /// A sampler at the start of its seed's sequence.
    pub fn new(options: SamplerOptions) -> Sampler {
        Sampler {
            options,
            rng: Rng::new(options.seed),
            candidates: Vec::new(),
            weights: Vec::new(),
            history: VecDeque::new(),
            seen: Vec::new(),
            banned: Vec::new(),
        }
    }

    /// The same that never chooses one of these tokens.
    #[must_use]
    pub fn never(mut self, tokens: &[u32]) -> Sampler {
        self.banned = tokens.to_vec();
        self.banned.sort_unstable();
        self
    }

    /// Forgets the text so far, and takes `tokens` for it.
    pub fn restart(&mut self, tokens: &[u32]) {
        self.history.clear();
        self.accept(tokens);
    }

    /// Takes note of tokens that the text goes on with.
    pub fn accept(&mut self, tokens: &[u32]) {
        if self.options.penalties.are_none() {
            return;
        }
        let most = self.options.penalties.last;
        self.history.extend(&tokens[tokens.len().saturating_sub(most)..]);
        let over = self.history.len().saturating_sub(most);
        self.history.drain(..over);
    }

    /// Whether it always takes the token of the highest logit.
    pub fn is_greedy(&self) -> bool {
        self.takes_likeliest() && !self.changes_logits()
    }

    /// Whether tokens are likelier or less likely than their logits say, so that all must be looked at.
    pub(super) fn changes_logits(&self) -> bool {
        !self.options.penalties.are_none() || !self.banned.is_empty()
    }

    fn takes_likeliest(&self) -> bool {
        self.options.is_greedy() || self.options.top_k == 1
    }

    /// Chooses a token; the index of a logit. NaN and negative infinity are never chosen.
    ///
    /// # Errors
    /// When no logit can be chosen: a model with broken weights computes nothing but NaN.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32> {
        self.candidates.clear();
        self.candidates.extend((0u32..).zip(logits).filter(|(_, logit)| **logit > f32::NEG_INFINITY).map(
            |(id, &logit)| {
                // Infinity would make every difference to it NaN.
                Candidate { id, logit: logit.min(f32::MAX) }
            },
        ));
        if self.changes_logits() {
            self.candidates.retain(|candidate| self.banned.binary_search(&candidate.id).is_err());
            self.seen.clear();
            self.seen.extend(&self.history);
            self.options.penalties.apply(&mut self.candidates, &mut self.seen);
        }
        self.choose(None)
    }

    /// Chooses one of the candidates. `total` is the sum of the probabilities of all tokens, relative to the likeliest one's, where
    /// candidates are not all that the cuts begin with.
    pub(super) fn choose(&mut self, total: Option<f64>) -> Result<u32> {
        let Some(best) = self.candidates.iter().copied().min_by(by_rank) else {
            let what = "no usable logit (all are NaN or negative infinity)".to_owned();
            return Err(RuntimeError::NotANumber { what });
        };
        if self.takes_likeliest() {
            return Ok(best.id);
        }
        self.keep_top_k();
        self.keep_top_p(best.logit, total);
        self.keep_min_p(best.logit);
        Ok(self.draw(best.logit))
    }

    /// Keeps the `top_k` likeliest.
    fn keep_top_k(&mut self) {
        let k = self.options.top_k;
        if k > 0 && k < self.candidates.len() {
            self.candidates.select_nth_unstable_by(k - 1, by_rank);
            self.candidates.truncate(k);
            // The order decides which token a random number stands for, and selecting leaves none in particular.
            self.candidates.sort_unstable_by(by_rank);
        }
    }

    /// Keeps the likeliest that together reach `top_p` of the probability, at least one.
    fn keep_top_p(&mut self, best: f32, total: Option<f64>) {
        if self.options.top_p >= 1.0 {
            return;
        }
        let sum = || self.candidates.iter().map(|candidate| relative(candidate.logit, best, 1.0)).sum();
        let total: f64 = total.unwrap_or_else(sum);
        let enough = total * f64::from(self.options.top_p);
        // Few tokens usually suffice: sorting a whole vocabulary would take longer than everything else here.
        let (mut sorted, mut sum) = (0, 0.0);
        let mut next = 64;
        while sorted < self.candidates.len() {
            let rest = &mut self.candidates[sorted..];
            let count = next.min(rest.len());
            if count < rest.len() {
                rest.select_nth_unstable_by(count - 1, by_rank);
            }
            rest[..count].sort_unstable_by(by_rank);
            for (at, candidate) in rest[..count].iter().enumerate() {
                sum += relative(candidate.logit, best, 1.0);
                if sum >= enough {
                    self.candidates.truncate(sorted + at + 1);
                    return;
                }
            }
            sorted += count;
            next *= 4;
        }
    }

    /// Keeps those that are at least `min_p` times as likely as the likeliest.
    fn keep_min_p(&mut self, best: f32) {
        if self.options.min_p > 0.0 {
            let least = self.least_difference();
            self.candidates.retain(|candidate| f64::from(candidate.logit) - f64::from(best) >= least);
        }
    }

    /// The logit relative to the likeliest's of what is just likely enough for `min_p`.
    pub(super) fn least_difference(&self) -> f64 {
        libm::log(f64::from(self.options.min_p))
    }

    /// Draws one of the candidates by their probabilities at the temperature.
    fn draw(&mut self, best: f32) -> u32 {
        let temperature = f64::from(self.options.temperature);
        self.weights.clear();
        // As many as there may be at a later token.
        self.weights.reserve(self.candidates.capacity());
        self.weights.extend(self.candidates.iter().map(|c| relative(c.logit, best, temperature)));
        let total: f64 = self.weights.iter().sum();
        let mut left = self.rng.next_f64() * total;
        let mut chosen = 0;
        for (candidate, &weight) in self.candidates.iter().zip(&self.weights) {
            // Rounding can leave a crumb after the last; it goes to the last that had a chance.
            if weight > 0.0 {
                chosen = candidate.id;
                if left < weight {
                    break;
                }
            }
            left -= weight;
        }
        chosen
    }
}

/// Probability relative to the likeliest token. By `libm`, for the exponential of the system's library differs between
/// systems in the last bit, which now and then turns another token up.
pub(super) fn relative(logit: f32, best: f32, temperature: f64) -> f64 {
    libm::exp((f64::from(logit) - f64::from(best)) / temperature)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 6] = [1.0, 3.0, 0.5, 2.0, -1.0, 2.5];

    fn sampler(temperature: f32, top_k: usize, top_p: f32, min_p: f32, seed: u64) -> Sampler {
        Sampler::new(SamplerOptions::new(temperature, top_k, top_p, min_p, seed).unwrap())
    }

    fn frequencies(mut sampler: Sampler, logits: &[f32], draws: usize) -> Vec<f64> {
        let mut counts = vec![0.0; logits.len()];
        for _ in 0..draws {
            counts[sampler.sample(logits).unwrap() as usize] += 1.0 / draws as f64;
        }
        counts
    }

    fn probabilities(keep: &[usize], temperature: f64) -> Vec<f64> {
        let weight = |i: usize| {
            if keep.contains(&i) { (f64::from(LOGITS[i]) / temperature).exp() } else { 0.0 }
        };
        let total: f64 = (0..LOGITS.len()).map(weight).sum();
        (0..LOGITS.len()).map(|i| weight(i) / total).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        for (f, e) in found.iter().zip(expected) {
            // Four standard deviations of 40 000 draws are below 0.01; what must not appear must not appear at all.
            assert!((f - e).abs() < 0.01 && (*e > 0.0 || *f == 0.0), "{found:?} instead of {expected:?}");
        }
    }

    #[test]
    fn tokens_come_as_often_as_their_probability_says() {
        for temperature in [0.5, 1.0, 2.0] {
            let found = frequencies(sampler(temperature, 0, 1.0, 0.0, 1), &LOGITS, 40_000);
            assert_close(&found, &probabilities(&[0, 1, 2, 3, 4, 5], f64::from(temperature)));
        }
    }

    #[test]
    fn each_cut_keeps_what_it_promises_whatever_the_temperature() {
        // Probabilities at temperature 1: 0.06, 0.46, 0.04, 0.17, 0.01, 0.28 (rounded).
        let cases = [
            (3, 1.0, 0.0, vec![1, 5, 3]),
            (0, 0.45, 0.0, vec![1]),
            (0, 0.5, 0.0, vec![1, 5]),
            (0, 0.8, 0.0, vec![1, 5, 3]),
            (0, 1.0, 0.3, vec![1, 5, 3]),
            (0, 1.0, 1.0, vec![1]),
            // Of the two likeliest, the first has 0.62: top-p counts within what top-k left.
            (2, 0.6, 0.0, vec![1]),
        ];
        for (top_k, top_p, min_p, keep) in cases {
            for temperature in [0.7, 5.0] {
                let found = frequencies(sampler(temperature, top_k, top_p, min_p, 3), &LOGITS, 40_000);
                assert_close(&found, &probabilities(&keep, f64::from(temperature)));
            }
        }
    }

    #[test]
    fn top_p_sorts_far_enough_in_a_flat_distribution() {
        let flat = vec![0.25; 1000];
        let mut sampler = sampler(1.0, 0, 0.9, 0.0, 9);
        let ids: Vec<u32> = (0..20_000).map(|_| sampler.sample(&flat).unwrap()).collect();
        assert!(ids.iter().all(|&id| id < 900), "equals are kept from the lowest id on");
        assert!(ids.iter().any(|&id| id > 850));
    }

    #[test]
    fn temperature_zero_and_top_k_one_take_the_likeliest_and_of_equals_the_first() {
        let ties = [1.0, f32::NAN, 7.0, 7.0, -0.0, f32::NEG_INFINITY];
        assert_eq!(sampler(0.0, 40, 0.9, 0.1, 5).sample(&ties).unwrap(), 2);
        assert_eq!(sampler(1.3, 1, 1.0, 0.0, 5).sample(&ties).unwrap(), 2);
        assert_eq!(sampler(0.0, 0, 1.0, 0.0, 0).sample(&[-0.0, 0.0]).unwrap(), 0);
    }

    #[test]
    fn nan_is_never_chosen_and_nothing_but_nan_is_an_error() {
        let mut some = sampler(1.0, 0, 1.0, 0.0, 0);
        let broken = [f32::NAN, 0.0, f32::NEG_INFINITY, 0.0];
        assert!((0..200).all(|_| some.sample(&broken).unwrap() % 2 == 1));
        for none in [&[f32::NAN; 4][..], &[f32::NEG_INFINITY; 2], &[]] {
            assert!(some.sample(none).is_err());
        }
    }

    #[test]
    fn infinities_and_extreme_temperatures_choose_among_the_best() {
        let logits = [f32::INFINITY, 1.0, f32::INFINITY, f32::MIN];
        for temperature in [f32::MIN_POSITIVE, 1.0] {
            let mut sampler = sampler(temperature, 0, 0.99, 0.01, 0);
            assert!((0..200).all(|_| [0, 2].contains(&sampler.sample(&logits).unwrap())));
        }
    }

    #[test]
    fn a_token_that_came_gives_way_and_a_banned_one_never_comes() {
        let penalties = super::super::Penalties { presence: 1.0, last: 2, ..super::super::Penalties::NONE };
        let mut sampler = Sampler::new(SamplerOptions::greedy().with_penalties(penalties).unwrap());
        assert!(
            !sampler.is_greedy() && !sampler.may_choose_of(100),
            "a device that knows the likeliest cannot choose"
        );
        let mut text = Vec::new();
        for _ in 0..4 {
            let token = sampler.sample(&LOGITS).unwrap();
            sampler.accept(&[token]);
            text.push(token);
        }
        // 3.0; then 2.5 against 2.0; then all three have 2.0 or less, and of equals the lowest id is taken.
        assert_eq!(text, [1, 5, 1, 1]);
        sampler.restart(&[1, 5]);
        assert_eq!(sampler.sample(&LOGITS).unwrap(), 1, "2.0 of all three, the lowest id");
        assert_eq!(Sampler::new(SamplerOptions::greedy()).never(&[5, 1]).sample(&LOGITS).unwrap(), 3);
    }

    #[test]
    fn a_seed_gives_the_same_tokens_for_ever() {
        let logits: Vec<f32> = (0..100).map(|i| ((i * 37 % 100) as f32) / 20.0).collect();
        let draw = |seed| {
            let mut sampler = sampler(0.8, 40, 0.95, 0.05, seed);
            (0..8).map(|_| sampler.sample(&logits).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(42), draw(42));
        assert_ne!(draw(42), draw(43));
        assert_eq!(draw(42), [67, 62, 18, 32, 40, 24, 54, 51]);
    }
}
