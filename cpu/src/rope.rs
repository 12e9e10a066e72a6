//! Rotary positions: element i of the first half of the rotated values of a head is turned against element i of their
//! second half.
//!
//! Angles are rounded to f32 where `transformers` rounds them, sines and cosines are taken in f64: with exact angles the
//! logits of long contexts would be others.

use super::isa::{Isa, Vectorized};
use super::rope_frequencies::RopeFrequencies;
use crate::memory::OutOfMemory;

/// Positions that are added together.
const PAGE: usize = 256;

/// Cosines and sines of the first positions.
#[derive(Debug, Clone)]
pub struct RopeTable {
    /// One for each pair that is turned.
    frequencies: RopeFrequencies,
    /// Width of a head; what is beyond the pairs stays as it is.
    head_dim: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// The table of heads of `head_dim` values, without positions as yet.
    ///
    /// # Panics
    /// When more values are turned than a head has.
    pub fn new(frequencies: &RopeFrequencies, head_dim: usize) -> RopeTable {
        let half = frequencies.inv_freq.len();
        assert!(half > 0 && 2 * half <= head_dim, "{half} pairs in heads of {head_dim}");
        RopeTable { frequencies: frequencies.clone(), head_dim, cos: Vec::new(), sin: Vec::new() }
    }

    /// Adds positions, up to `positions` and to the end of the page that the last of them is in.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn reserve(&mut self, positions: usize) -> Result<(), OutOfMemory> {
        let RopeFrequencies { inv_freq, attention_factor } = &self.frequencies;
        let (there, half) = (self.cos.len() / inv_freq.len(), inv_freq.len());
        if positions <= there {
            return Ok(());
        }
        let positions = positions.next_multiple_of(PAGE);
        for table in [&mut self.cos, &mut self.sin] {
            table.try_reserve_exact((positions - there).saturating_mul(half)).map_err(|_| {
                let bytes = (positions as u64).saturating_mul(4 * half as u64);
                OutOfMemory { what: format!("rotary table of {positions} positions"), bytes }
            })?;
        }
        for position in there..positions {
            for freq in inv_freq {
                let angle = f64::from(position as f32 * freq);
                self.cos.push(libm::cos(angle) as f32 * attention_factor);
                self.sin.push(libm::sin(angle) as f32 * attention_factor);
            }
        }
        Ok(())
    }

    /// Bytes that a table of `pairs` takes for `positions`, without what the allocator adds.
    pub const fn bytes(pairs: usize, positions: usize) -> u64 {
        (positions.div_ceil(PAGE) as u64).saturating_mul(2 * size_of::<f32>() as u64 * (PAGE * pairs) as u64)
    }

    /// Cosine and sine of each pair at `position`.
    ///
    /// # Panics
    /// When `position` is not in the table.
    pub fn angles(&self, position: usize) -> impl Iterator<Item = (f32, f32)> + '_ {
        let half = self.frequencies.inv_freq.len();
        let range = position * half..(position + 1) * half;
        self.cos[range.clone()].iter().copied().zip(self.sin[range].iter().copied())
    }

    /// Turns one head of any width.
    ///
    /// # Panics
    /// When it is narrower than what is turned, or `position` is not in the table.
    pub fn apply_to_one(&self, isa: Isa, head: &mut [f32], position: usize) {
        let half = self.frequencies.inv_freq.len();
        let (range, head_dim) = (position * half..(position + 1) * half, head.len());
        isa.vectorize(Apply { cos: &self.cos[range.clone()], sin: &self.sin[range], heads: head, head_dim });
    }

    /// Turns consecutive heads, all of the token at `position`.
    ///
    /// # Panics
    /// When `heads` is not whole heads or `position` is not in the table.
    pub fn apply(&self, isa: Isa, heads: &mut [f32], position: usize) {
        let (half, head_dim) = (self.frequencies.inv_freq.len(), self.head_dim);
        assert!(heads.len().is_multiple_of(head_dim), "{} values are not heads of {head_dim}", heads.len());
        let range = position * half..(position + 1) * half;
        isa.vectorize(Apply { cos: &self.cos[range.clone()], sin: &self.sin[range], heads, head_dim });
    }
}

struct Apply<'a> {
    cos: &'a [f32],
    sin: &'a [f32],
    heads: &'a mut [f32],
    head_dim: usize,
}

impl Vectorized for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let half = self.cos.len();
        for head in self.heads.chunks_exact_mut(self.head_dim) {
            let (first, second) = head[..2 * half].split_at_mut(half);
            for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(self.cos).zip(self.sin) {
                let (x, y) = (*a, *b);
                *a = x * cos - y * sin;
                *b = y * cos + x * sin;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(theta: f32, dims: usize, head_dim: usize, positions: usize) -> RopeTable {
        let mut table = RopeTable::new(&RopeFrequencies::new(theta, None, dims, positions), head_dim);
        table.reserve(positions).unwrap();
        table
    }

    #[test]
    fn a_table_that_grows_is_that_made_at_once_and_takes_what_it_says() {
        let mut grown = table(10_000.0, 6, 6, 1);
        for positions in [2, 256, 257, 1_000] {
            grown.reserve(positions).unwrap();
        }
        let whole = table(10_000.0, 6, 6, 1_000);
        assert_eq!((&grown.cos, &grown.sin), (&whole.cos, &whole.sin));
        assert_eq!(RopeTable::bytes(3, 1_000), 4 * (grown.cos.len() + grown.sin.len()) as u64);
        assert!(grown.reserve(usize::MAX / 2).is_err());
    }

    #[test]
    fn heads_are_turned_by_the_formula_and_the_same_on_every_instruction_set() {
        for (dims, head_dim) in [(34, 34), (10, 34)] {
            let table = table(10_000.0, dims, head_dim, 1_001);
            let x: Vec<f32> = (0..3 * head_dim).map(|i| ((i * 37) % 19) as f32 - 9.0).collect();
            for position in [0, 1, 9, 10, 1_000] {
                let mut expected = x.clone();
                table.apply(Isa::SCALAR, &mut expected, position);
                for (out, x) in expected.chunks(head_dim).zip(x.chunks(head_dim)) {
                    for i in 0..dims / 2 {
                        let angle = position as f64 * 10_000f64.powf(-2.0 * i as f64 / dims as f64);
                        let (a, b) = (f64::from(x[i]), f64::from(x[i + dims / 2]));
                        let (first, second) =
                            (a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin());
                        let tolerance = 2e-5 + position as f64 * 2e-6;
                        assert!((f64::from(out[i]) - first).abs() < tolerance);
                        assert!((f64::from(out[i + dims / 2]) - second).abs() < tolerance);
                    }
                    assert_eq!(out[dims..], x[dims..], "values beyond the rotated ones stay");
                }
                for isa in Isa::available() {
                    let mut out = x.clone();
                    table.apply(isa, &mut out, position);
                    assert_eq!(out, expected, "{isa:?} {position}");
                }
            }
        }
    }

    #[test]
    fn position_zero_leaves_heads_as_they_are() {
        let mut head = [1.0, 2.0, 3.0, 4.0];
        table(500_000.0, 4, 4, 1).apply(Isa::best(), &mut head, 0);
        assert_eq!(head, [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn an_attention_factor_scales_what_is_turned() {
        let mut frequencies = RopeFrequencies::new(10_000.0, None, 2, 1);
        frequencies.attention_factor = 1.5;
        let mut head = [1.0, 2.0, 3.0];
        let mut table = RopeTable::new(&frequencies, 3);
        table.reserve(1).unwrap();
        table.apply(Isa::best(), &mut head, 0);
        assert_eq!(head, [1.5, 3.0, 3.0]);
    }
}
