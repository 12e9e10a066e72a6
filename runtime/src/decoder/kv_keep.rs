//! Which positions are kept where not all are.
//!
//! Keys stay rotated to their true positions and queries come at theirs, so what is left of a text looks to the model as it
//! did before: distances are those of the text, nothing is rounded again, and a text can be as long as the model was made for.
//! (StreamingLLM, arXiv 2309.17453, counts positions inside of the cache instead, to go on beyond that length.)

use std::str::FromStr;

use crate::error::{Result, RuntimeError};

/// First positions that are always kept: much attention goes there whatever they are (arXiv 2309.17453 keeps four).
const SINKS: usize = 4;
/// Fewest positions that can be kept.
const LEAST: usize = 16;

/// What decides which positions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KvPolicy {
    /// The first four and the last (StreamingLLM).
    #[default]
    Window,
    /// The last, one half, and of the others those that have got most attention, for each key/value head (H2O, arXiv
    /// 2306.14048).
    HeavyHitters,
}

impl KvPolicy {
    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            KvPolicy::Window => "window",
            KvPolicy::HeavyHitters => "h2o",
        }
    }
}

impl FromStr for KvPolicy {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<KvPolicy, String> {
        let known = [KvPolicy::Window, KvPolicy::HeavyHitters];
        let found = known.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| format!("'{text}' is none of: window, h2o"))
    }
}

/// How many positions are kept, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvKeep {
    /// As many are left when there is no room for more. In between up to one step more are there, at least [`KvKeep::SLACK`].
    pub positions: usize,
    /// Which.
    pub policy: KvPolicy,
}

impl KvKeep {
    /// Positions that are let go together at least, as choosing and moving take their time.
    pub const SLACK: usize = 64;

    pub(super) fn check(self) -> Result<()> {
        if self.positions < LEAST {
            return Err(RuntimeError::Request(format!(
                "--kv-window {}: expected at least {LEAST} positions, of which the first {SINKS} are always kept",
                self.positions
            )));
        }
        Ok(())
    }

    /// Which of the first `used` positions are kept, ascending; by `mass`, the attention that each has got, where that decides.
    pub(super) fn chosen(self, used: usize, mass: &[f32]) -> Vec<usize> {
        let keep = self.positions.min(used);
        match self.policy {
            KvPolicy::Window => {
                let sinks = SINKS.min(keep);
                (0..sinks).chain(used - (keep - sinks)..used).collect()
            }
            KvPolicy::HeavyHitters => {
                let older = used - keep / 2;
                let mut chosen: Vec<usize> = (0..older).collect();
                // Of equals the first.
                chosen.sort_by(|a, b| mass[*b].total_cmp(&mass[*a]));
                chosen.truncate(keep - keep / 2);
                chosen.sort_unstable();
                chosen.extend(older..used);
                chosen
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(positions: usize, policy: KvPolicy) -> KvKeep {
        KvKeep { positions, policy }
    }

    #[test]
    fn a_window_keeps_the_first_four_and_the_last() {
        let chosen = keep(16, KvPolicy::Window).chosen(40, &[]);
        assert_eq!(chosen, (0..4).chain(28..40).collect::<Vec<_>>());
        assert_eq!(keep(16, KvPolicy::Window).chosen(10, &[]), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn heavy_hitters_are_kept_with_the_last_half_and_of_equals_the_first() {
        let mut mass = vec![1.0; 40];
        (mass[3], mass[17], mass[30], mass[39]) = (5.0, 9.0, 7.0, 0.0);
        let chosen = keep(16, KvPolicy::HeavyHitters).chosen(40, &mass);
        assert_eq!(chosen, [0, 1, 2, 3, 4, 5, 17, 30].into_iter().chain(32..40).collect::<Vec<_>>());
        assert_eq!(chosen.len(), 16);
    }

    #[test]
    fn policies_are_named_as_documented_and_windows_of_nothing_refused() {
        assert_eq!(("window".parse(), "h2o".parse()), (Ok(KvPolicy::Window), Ok(KvPolicy::HeavyHitters)));
        assert!("lru".parse::<KvPolicy>().unwrap_err().contains("h2o"));
        assert!(keep(15, KvPolicy::Window).check().unwrap_err().to_string().contains("--kv-window 15"));
        keep(16, KvPolicy::Window).check().unwrap();
    }
}
