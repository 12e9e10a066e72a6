//! Penalties for tokens that came already, as llama.cpp has them (`llama_sampler_penalties`, src/llama-sampling.cpp): a logit is
//! divided by the repeat penalty (multiplied, below 0), and loses the frequency penalty for each time, and the presence penalty once.

use super::candidate::Candidate;
use crate::error::{Result, RuntimeError};

/// How much less likely tokens get by having come already.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// What logits are divided by; 1: nothing.
    pub repeat: f32,
    /// What logits lose once; 0: nothing.
    pub presence: f32,
    /// What logits lose for each time; 0: nothing.
    pub frequency: f32,
    /// How many of the last tokens count, those of the prompt among them.
    pub last: usize,
}

impl Penalties {
    /// None.
    pub const NONE: Penalties = Penalties { repeat: 1.0, presence: 0.0, frequency: 0.0, last: 64 };

    /// Whether logits change.
    pub fn are_none(&self) -> bool {
        self.last == 0 || (self.repeat == 1.0 && self.presence == 0.0 && self.frequency == 0.0)
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// A value is out of its range; the message names the flag and the range.
    pub fn check(&self) -> Result<()> {
        let checks = [
            (
                "--repeat-penalty",
                self.repeat,
                self.repeat > 0.0,
                "a number above 0, such as 1.1; 1 changes nothing",
            ),
            ("--presence-penalty", self.presence, true, "a number such as 0.5; 0 changes nothing"),
            ("--frequency-penalty", self.frequency, true, "a number such as 0.5; 0 changes nothing"),
        ];
        match checks.into_iter().find(|(_, value, valid, _)| !(value.is_finite() && *valid)) {
            Some((flag, value, _, expected)) => {
                Err(RuntimeError::Request(format!("{flag} is {value}, expected {expected}")))
            }
            None => Ok(()),
        }
    }

    /// Changes the logits of `candidates`, which are in the order of their ids, by the tokens in `seen`, which gets sorted.
    pub(super) fn apply(&self, candidates: &mut [Candidate], seen: &mut [u32]) {
        seen.sort_unstable();
        for run in seen.chunk_by(|a, b| a == b) {
            let Ok(at) = candidates.binary_search_by_key(&run[0], |candidate| candidate.id) else { continue };
            let logit = &mut candidates[at].logit;
            *logit = if *logit <= 0.0 { *logit * self.repeat } else { *logit / self.repeat };
            *logit -= run.len() as f32 * self.frequency + self.presence;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_came_loses_what_the_formula_says() {
        let logits = [2.0, -2.0, 1.0, 0.5];
        let mut candidates: Vec<Candidate> =
            (0..).zip(logits).map(|(id, logit)| Candidate { id, logit }).collect();
        let penalties = Penalties { repeat: 2.0, presence: 0.25, frequency: 0.5, last: 64 };
        // Token 7 is no candidate.
        penalties.apply(&mut candidates, &mut [1, 0, 7, 0]);
        let found: Vec<f32> = candidates.iter().map(|candidate| candidate.logit).collect();
        assert_eq!(found, [2.0 / 2.0 - 2.0 * 0.5 - 0.25, -2.0 * 2.0 - 0.5 - 0.25, 1.0, 0.5]);
    }

    #[test]
    fn values_out_of_range_are_refused_with_their_flag() {
        for (penalties, flag) in [
            (Penalties { repeat: 0.0, ..Penalties::NONE }, "--repeat-penalty is 0"),
            (Penalties { repeat: -1.0, ..Penalties::NONE }, "--repeat-penalty is -1"),
            (Penalties { presence: f32::NAN, ..Penalties::NONE }, "--presence-penalty is NaN"),
            (Penalties { frequency: f32::INFINITY, ..Penalties::NONE }, "--frequency-penalty is inf"),
        ] {
            let error = penalties.check().unwrap_err().to_string();
            assert!(error.starts_with(flag), "{error}");
        }
        assert!(Penalties::NONE.are_none() && Penalties::NONE.check().is_ok());
    }
}
