//! Flags of how tokens are chosen.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use qsf_runtime::Result;
use qsf_runtime::sample::{MAX_SEED, Penalties, Sampler, SamplerOptions};

use crate::console::note;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub(super) struct SamplingArgs {
    /// Temperature; 0 always takes the likeliest token
    #[arg(long, visible_alias = "temp", value_name = "T", default_value_t = 0.7)]
    pub(super) temperature: f32,
    /// Keep the K likeliest tokens; 0 keeps all [default: 40]
    #[arg(long, value_name = "K", value_parser = top_k)]
    pub(super) top_k: Option<usize>,
    /// Keep the likeliest tokens until their probabilities reach P; 1 keeps all [default: 0.9]
    #[arg(long, value_name = "P")]
    pub(super) top_p: Option<f32>,
    /// Keep tokens at least P times as likely as the likeliest; 0 keeps all [default: 0]
    #[arg(long, value_name = "P")]
    pub(super) min_p: Option<f32>,
    /// Seed of the random choices, 0 to 2^53 - 1; -1: from the clock [default: -1; --verbose and --json show which it was]
    #[arg(short, long, value_name = "N", value_parser = seed)]
    pub(super) seed: Option<Seed>,
    /// Divide the logits of tokens that came already by this (below 0: multiply); 1 changes nothing
    #[arg(long, value_name = "X", conflicts_with_all = ["measure", "tokenize"])]
    pub(super) repeat_penalty: Option<f32>,
    /// Subtract this from the logits of tokens that came already; 0 changes nothing
    #[arg(long, value_name = "X", conflicts_with_all = ["measure", "tokenize"])]
    pub(super) presence_penalty: Option<f32>,
    /// Subtract this from the logit of a token for each time that it came; 0 changes nothing
    #[arg(long, value_name = "X", conflicts_with_all = ["measure", "tokenize"])]
    pub(super) frequency_penalty: Option<f32>,
    /// How many of the last tokens, with those of the prompt, came already for penalties [default: 64]
    #[arg(long, value_name = "N", conflicts_with_all = ["measure", "tokenize"])]
    pub(super) repeat_last_n: Option<usize>,
}

/// `--seed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seed {
    Clock,
    Given(u64),
}

/// `--seed`, of which llama.cpp's -1 is any.
fn seed(text: &str) -> std::result::Result<Seed, String> {
    if text == "-1" {
        return Ok(Seed::Clock);
    }
    let number = text.parse().ok().filter(|number| *number <= MAX_SEED);
    number
        .map(Seed::Given)
        .ok_or_else(|| format!("expected a whole number from 0 to {MAX_SEED} (2^53 - 1), or -1 for any"))
}

/// `--top-k`.
fn top_k(text: &str) -> std::result::Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number; 0 keeps all tokens".into())
}

impl SamplingArgs {
    /// The sampler that the flags ask for, and its seed. Says which of them change nothing: not an error, as whoever tries
    /// several temperatures has the others on the same line.
    pub(super) fn sampler(&self) -> Result<(Sampler, u64)> {
        let (options, seed) = self.options()?;
        Ok((Sampler::new(options), seed))
    }

    /// What the flags ask for, and the seed of it; says which change nothing.
    pub(super) fn options(&self) -> Result<(SamplerOptions, u64)> {
        let idle = self.without_effect();
        if !idle.is_empty() {
            let flags = idle.join(", ");
            note(&format!("{flags}: without effect at --temp 0, which always takes the likeliest token"));
        }
        let seed = self.given_seed().unwrap_or_else(clock_seed);
        let (top_k, top_p, min_p) =
            (self.top_k.unwrap_or(40), self.top_p.unwrap_or(0.9), self.min_p.unwrap_or(0.0));
        let options = SamplerOptions::new(self.temperature, top_k, top_p, min_p, seed)?;
        Ok((options.with_penalties(self.penalties())?, seed))
    }

    /// The seed, where it is not to be any.
    pub(super) fn given_seed(&self) -> Option<u64> {
        match self.seed {
            Some(Seed::Given(seed)) => Some(seed),
            Some(Seed::Clock) | None => None,
        }
    }

    fn penalties(&self) -> Penalties {
        let none = Penalties::NONE;
        let penalties = Penalties {
            repeat: self.repeat_penalty.unwrap_or(none.repeat),
            presence: self.presence_penalty.unwrap_or(none.presence),
            frequency: self.frequency_penalty.unwrap_or(none.frequency),
            last: self.repeat_last_n.unwrap_or(none.last),
        };
        if self.repeat_last_n.is_some() && penalties.are_none() {
            note("--repeat-last-n: without effect, as there is no penalty");
        }
        penalties
    }

    /// The flags given that change nothing.
    fn without_effect(&self) -> Vec<&'static str> {
        if self.temperature != 0.0 {
            return Vec::new();
        }
        let flags = [
            ("--top-k", self.top_k.is_some()),
            ("--top-p", self.top_p.is_some()),
            ("--min-p", self.min_p.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }
}

fn clock_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64 & MAX_SEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_number_that_json_keeps() {
        assert_eq!(seed("0"), Ok(Seed::Given(0)));
        assert_eq!(seed("9007199254740991"), Ok(Seed::Given(MAX_SEED)));
        assert_eq!(seed("-1"), Ok(Seed::Clock));
        for wrong in ["9007199254740992", "-2", "1.5", "", "x"] {
            assert!(seed(wrong).unwrap_err().contains("9007199254740991"), "{wrong}");
        }
        assert!(clock_seed() <= MAX_SEED);
    }
}
