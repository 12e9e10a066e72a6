//! Rotary positions: element i of the first half of the rotated values of a head is turned against element i of their
//! second half.
//!
//! Angles are rounded to f32 where `transformers` rounds them, sines and cosines are taken in f64: with exact angles the
//! logits of long contexts would be others.

use super::isa::{Isa, Vectorized};
use super::rope_frequencies::RopeFrequencies;

/// Cosines and sines of every position below a limit.
#[derive(Debug, Clone)]
pub struct RopeTable {
    /// Pairs that are turned.
    half: usize,
    /// Width of a head; what is beyond the pairs stays as it is.
    head_dim: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// The table of heads of `head_dim` values for positions below `positions`.
    ///
    /// # Panics
    /// When more values are turned than a head has.
    pub fn new(frequencies: &RopeFrequencies, head_dim: usize, positions: usize) -> RopeTable {
        let RopeFrequencies { inv_freq, attention_factor } = frequencies;
        let half = inv_freq.len();
        assert!(half > 0 && 2 * half <= head_dim, "{half} pairs in heads of {head_dim}");
        let (mut cos, mut sin) = (Vec::with_capacity(positions * half), Vec::with_capacity(positions * half));
        for position in 0..positions {
            for freq in inv_freq {
                let angle = f64::from(position as f32 * freq);
                cos.push(libm::cos(angle) as f32 * attention_factor);
                sin.push(libm::sin(angle) as f32 * attention_factor);
            }
        }
        RopeTable { half, head_dim, cos, sin }
    }

    /// Bytes of a table that turns so many pairs of each head.
    pub fn bytes(pairs: usize, positions: usize) -> u64 {
        (2 * size_of::<f32>() as u64).saturating_mul(pairs as u64).saturating_mul(positions as u64)
    }

    /// Turns consecutive heads, all of the token at `position`.
    ///
    /// # Panics
    /// When `heads` is not whole heads or `position` is not in the table.
    pub fn apply(&self, isa: Isa, heads: &mut [f32], position: usize) {
        let RopeTable { half, head_dim, .. } = *self;
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
        RopeTable::new(&RopeFrequencies::new(theta, None, dims, positions), head_dim, positions)
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
        RopeTable::new(&frequencies, 3, 1).apply(Isa::best(), &mut head, 0);
        assert_eq!(head, [1.5, 3.0, 3.0]);
    }
}
