//! How tokens are chosen, checked once.

use super::penalties::Penalties;
use crate::error::{Result, RuntimeError};

/// The largest seed of the programs: JSON readers that take numbers for floats of 64 bits keep it (RFC 8259, section 6).
pub const MAX_SEED: u64 = (1 << 53) - 1;

/// The seed of the text with this number, from 0, of many texts that are drawn together, the first with `first`: so equal prompts
/// get texts of their own. Behind [`MAX_SEED`] seeds begin anew.
pub const fn seed_of_text(first: u64, number: u64) -> u64 {
    first.wrapping_add(number) & MAX_SEED
}

/// How tokens are chosen. The fields are private, so that a value of this type always lies in its ranges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerOptions {
    pub(super) temperature: f32,
    pub(super) top_k: usize,
    pub(super) top_p: f32,
    pub(super) min_p: f32,
    pub(super) seed: u64,
    pub(super) penalties: Penalties,
}

impl SamplerOptions {
    /// Options for sampling.
    ///
    /// - `temperature`: 0 always takes the likeliest token; 1 keeps the model's distribution; more flattens it.
    /// - `top_k`: only the `k` likeliest tokens; 0 for all.
    /// - `top_p`: only the likeliest tokens that together reach this probability; 1 for all.
    /// - `min_p`: only tokens at least this likely relative to the likeliest; 0 for all.
    /// - `seed`: the same seed gives the same tokens on every machine, for the same logits.
    ///
    /// # Errors
    /// A value is out of its range; the message names the flag and the range.
    pub fn new(temperature: f32, top_k: usize, top_p: f32, min_p: f32, seed: u64) -> Result<SamplerOptions> {
        let checks = [
            (
                "--temperature",
                temperature,
                temperature.is_finite() && temperature >= 0.0,
                "a finite number of 0 or more; 0 always takes the likeliest token",
            ),
            ("--top-p", top_p, top_p > 0.0 && top_p <= 1.0, "a number above 0 and at most 1"),
            ("--min-p", min_p, (0.0..=1.0).contains(&min_p), "a number from 0 to 1"),
        ];
        for (flag, value, valid, expected) in checks {
            if !valid {
                return Err(RuntimeError::Request(format!("{flag} is {value}, expected {expected}")));
            }
        }
        Ok(SamplerOptions { temperature, top_k, top_p, min_p, seed, penalties: Penalties::NONE })
    }

    /// The same with penalties for tokens that came already.
    ///
    /// # Errors
    /// A value is out of its range; the message names the flag and the range.
    pub fn with_penalties(self, penalties: Penalties) -> Result<SamplerOptions> {
        penalties.check()?;
        Ok(SamplerOptions { penalties, ..self })
    }

    /// What random choices follow from.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The same with another seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> SamplerOptions {
        SamplerOptions { seed, ..self }
    }

    /// Always the likeliest token.
    pub const fn greedy() -> SamplerOptions {
        SamplerOptions {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
            penalties: Penalties::NONE,
        }
    }

    /// Whether the likeliest token is always taken, so that the seed has no influence.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_range_is_refused_with_its_flag_and_range() {
        let message = |t, p, m| SamplerOptions::new(t, 0, p, m, 0).unwrap_err().to_string();
        assert_eq!(
            message(-1.0, 1.0, 0.0),
            "--temperature is -1, expected a finite number of 0 or more; 0 always takes the likeliest token"
        );
        assert_eq!(message(1.0, 0.0, 0.0), "--top-p is 0, expected a number above 0 and at most 1");
        assert_eq!(message(1.0, 1.0, 1.5), "--min-p is 1.5, expected a number from 0 to 1");
        for bad in [f32::NAN, f32::INFINITY, -0.1] {
            assert!(SamplerOptions::new(bad, 0, 1.0, 0.0, 0).is_err());
            assert!(SamplerOptions::new(1.0, 0, bad, 0.0, 0).is_err());
            assert!(SamplerOptions::new(1.0, 0, 1.0, bad, 0).is_err());
        }
    }

    #[test]
    fn texts_drawn_together_have_seeds_that_json_keeps() {
        assert_eq!((seed_of_text(7, 0), seed_of_text(7, 5)), (7, 12));
        assert_eq!(seed_of_text(MAX_SEED, 2), 1, "they begin anew behind the largest");
    }

    #[test]
    fn the_ends_of_each_range_are_accepted() {
        assert!(SamplerOptions::new(0.0, 0, 1.0, 0.0, u64::MAX).unwrap().is_greedy());
        assert!(!SamplerOptions::new(f32::MAX, usize::MAX, f32::MIN_POSITIVE, 1.0, 0).unwrap().is_greedy());
    }
}
