//! Which rotation queries and keys of a layer get.

use qsf_format::{ModelConfig, PositionConfig};

use crate::error::Result;
use qsf_cpu::{RopeFrequencies, RopeTable};

/// The rotary tables of a model for one length of context.
pub(super) struct Rotation {
    full: Option<RopeTable>,
    /// Of layers with a sliding window, where it is another.
    sliding: Option<RopeTable>,
}

impl Rotation {
    /// Tables for sequences of up to `context` positions, which [`Rotation::reserve`] adds.
    pub fn new(config: &ModelConfig, context: usize) -> Rotation {
        let PositionConfig::Rope { theta, scaling, dims, sliding_theta, .. } = &config.position else {
            return Rotation { full: None, sliding: None };
        };
        let head_dim = config.head_dim as usize;
        let dims = dims.map_or(head_dim, |dims| dims as usize);
        let table =
            |theta, scaling| RopeTable::new(&RopeFrequencies::new(theta, scaling, dims, context), head_dim);
        Rotation {
            full: Some(table(*theta, scaling.as_ref())),
            sliding: sliding_theta.map(|theta| table(theta, None)),
        }
    }

    /// Adds positions up to `positions`.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn reserve(&mut self, positions: usize) -> Result<()> {
        let mut tables = [&mut self.full, &mut self.sliding].into_iter().flatten();
        Ok(tables.try_for_each(|table| table.reserve(positions))?)
    }

    /// Bytes that the tables take for `positions`, without what the allocator adds.
    pub fn bytes(config: &ModelConfig, positions: usize) -> u64 {
        let PositionConfig::Rope { dims, sliding_theta, .. } = &config.position else { return 0 };
        let pairs = dims.unwrap_or(config.head_dim) as usize / 2;
        RopeTable::bytes(pairs, positions).saturating_mul(1 + u64::from(sliding_theta.is_some()))
    }

    /// The table for `layer`; `None`: no rotation.
    pub fn of_layer(&self, config: &ModelConfig, layer: u32) -> Option<&RopeTable> {
        match &config.position {
            PositionConfig::Rope { unrotated_layers, .. }
                if unrotated_layers.binary_search(&layer).is_ok() =>
            {
                None
            }
            _ if config.window(layer).is_some() => self.sliding.as_ref().or(self.full.as_ref()),
            _ => self.full.as_ref(),
        }
    }
}

/// Slopes of ALiBi for each head (arXiv 2108.12409): powers of `2^(-8/n)`, with n the number of heads; where that is no power
/// of two, those of the power below, and for the rest every second one of the power above.
pub(super) fn alibi_slopes(heads: usize) -> Vec<f32> {
    if heads == 0 {
        return Vec::new();
    }
    let below = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let slope = |n: usize, i: usize| libm::exp2(-8.0 * i as f64 / n as f64) as f32;
    let first = (1..=below).map(|i| slope(below, i));
    let rest = (0..heads - below).map(|i| slope(2 * below, 2 * i + 1));
    first.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_paper_also_for_other_numbers_of_heads() {
        assert_eq!(alibi_slopes(1), [1.0 / 256.0]);
        assert_eq!(alibi_slopes(4), [0.25, 0.0625, 0.015625, 0.00390625]);
        let six = alibi_slopes(6);
        assert_eq!(six[..4], alibi_slopes(4));
        assert_eq!(six[4..], [0.5, 0.125]);
    }
}
