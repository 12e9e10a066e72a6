//! Which rotation queries and keys of a layer get.

use qsf_format::{ModelConfig, PositionConfig};

use crate::error::Result;
use qsf_cpu::{RopeFrequencies, RopeTable};

/// The rotary tables of a model for one length of context.
pub struct Rotation {
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
        let table = |theta, scaling, head_dim: u32| {
            let dims = dims.unwrap_or(head_dim) as usize;
            RopeTable::new(&RopeFrequencies::new(theta, scaling, dims, context), head_dim as usize)
        };
        let scaling = scaling.as_ref();
        let sliding = match (sliding_theta, config.full_attention) {
            (Some(theta), _) => Some(table(*theta, None, config.head_dim)),
            (None, Some(_)) => Some(table(*theta, scaling, config.head_dim)),
            (None, None) => None,
        };
        let full_dim = config.full_attention.map_or(config.head_dim, |full| full.head_dim);
        Rotation { full: Some(table(*theta, scaling, full_dim)), sliding }
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
        let bytes = |head_dim: u32| RopeTable::bytes(dims.unwrap_or(head_dim) as usize / 2, positions);
        match (sliding_theta, config.full_attention) {
            (_, Some(full)) => bytes(full.head_dim).saturating_add(bytes(config.head_dim)),
            (Some(_), None) => bytes(config.head_dim).saturating_mul(2),
            (None, None) => bytes(config.head_dim),
        }
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
/// of two, those of the power below, and for the rest every second one of the power above. All times `scale`.
pub fn alibi_slopes(heads: usize, scale: f32) -> Vec<f32> {
    if heads == 0 {
        return Vec::new();
    }
    let below = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let slope = |n: usize, i: usize| libm::exp2(-8.0 * i as f64 / n as f64) as f32 * scale;
    let first = (1..=below).map(|i| slope(below, i));
    let rest = (0..heads - below).map(|i| slope(2 * below, 2 * i + 1));
    first.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_paper_also_for_other_numbers_of_heads() {
        assert_eq!(alibi_slopes(1, 1.0), [1.0 / 256.0]);
        assert_eq!(alibi_slopes(4, 1.0), [0.25, 0.0625, 0.015625, 0.00390625]);
        let six = alibi_slopes(6, 1.0);
        assert_eq!(six[..4], alibi_slopes(4, 1.0));
        assert_eq!(six[4..], [0.5, 0.125]);
        assert_eq!(alibi_slopes(2, 0.5), [0.03125, 0.001953125]);
    }
}
