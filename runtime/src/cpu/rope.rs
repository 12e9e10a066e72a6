//! Rotary positions: element i of the first half of a head is turned against element i of the second half.
//!
//! Frequencies and angles are rounded to f32 at the places where `transformers` rounds them, sines and cosines are taken
//! in f64: with the exact frequencies the logits of long contexts would be others.

use qsf_format::RopeScaling;

use super::isa::{Isa, Vectorized};

/// Cosines and sines of every position below a limit.
#[derive(Debug, Clone)]
pub struct RopeTable {
    inv_freq: Vec<f32>,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// The table for positions below `positions`.
    ///
    /// # Panics
    /// When `head_dim` is 0 or odd.
    pub fn new(theta: f32, scaling: Option<&RopeScaling>, head_dim: usize, positions: usize) -> RopeTable {
        assert!(head_dim > 0 && head_dim.is_multiple_of(2), "head_dim {head_dim} has no halves");
        let inv_freq = (0..head_dim / 2).map(|i| {
            let exponent = (2 * i) as f32 / head_dim as f32;
            let power = libm::pow(f64::from(theta), f64::from(exponent)) as f32;
            scaled(1.0 / power, scaling)
        });
        let mut table = RopeTable { inv_freq: inv_freq.collect(), cos: Vec::new(), sin: Vec::new() };
        table.grow(positions);
        table
    }

    /// Width of the heads that the table is for.
    pub fn head_dim(&self) -> usize {
        2 * self.inv_freq.len()
    }

    /// Positions in the table.
    pub fn positions(&self) -> usize {
        self.cos.len() / self.inv_freq.len()
    }

    /// Makes the table hold at least `positions` positions.
    pub fn grow(&mut self, positions: usize) {
        for position in self.positions()..positions {
            for freq in &self.inv_freq {
                let angle = f64::from(position as f32 * freq);
                self.cos.push(libm::cos(angle) as f32);
                self.sin.push(libm::sin(angle) as f32);
            }
        }
    }

    /// Turns consecutive heads, all of the token at `position`.
    ///
    /// # Panics
    /// When `heads` is not whole heads or `position` is not in the table.
    pub fn apply(&self, isa: Isa, heads: &mut [f32], position: usize) {
        let half = self.inv_freq.len();
        assert!(heads.len().is_multiple_of(2 * half), "{} values are not heads of {}", heads.len(), 2 * half);
        assert!(position < self.positions(), "position {position} is not in the table");
        let range = position * half..(position + 1) * half;
        isa.vectorize(Apply { cos: &self.cos[range.clone()], sin: &self.sin[range], heads });
    }
}

/// An inverse frequency after scaling, in f32 operation by operation.
fn scaled(freq: f32, scaling: Option<&RopeScaling>) -> f32 {
    match scaling {
        None => freq,
        Some(RopeScaling::Linear { factor }) => freq / factor,
        Some(&RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions }) => {
            let original = original_positions as f32;
            let wavelength = std::f32::consts::TAU / freq;
            if wavelength > original / low_freq_factor {
                freq / factor
            } else if wavelength < original / high_freq_factor {
                freq
            } else {
                let smooth = (original / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
                (1.0 - smooth) * freq / factor + smooth * freq
            }
        }
        Some(_) => freq,
    }
}

struct Apply<'a> {
    cos: &'a [f32],
    sin: &'a [f32],
    heads: &'a mut [f32],
}

impl Vectorized for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let half = self.cos.len();
        for head in self.heads.chunks_exact_mut(2 * half) {
            let (first, second) = head.split_at_mut(half);
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

    #[test]
    fn heads_are_turned_by_the_formula_and_the_same_on_every_instruction_set() {
        let dim = 34;
        let mut table = RopeTable::new(10_000.0, None, dim, 10);
        table.grow(1_001);
        let x: Vec<f32> = (0..3 * dim).map(|i| ((i * 37) % 19) as f32 - 9.0).collect();
        for position in [0, 1, 9, 10, 1_000] {
            let mut expected = x.clone();
            table.apply(Isa::SCALAR, &mut expected, position);
            for (out, x) in expected.chunks(dim).zip(x.chunks(dim)) {
                for i in 0..dim / 2 {
                    let angle = position as f64 * 10_000f64.powf(-2.0 * i as f64 / dim as f64);
                    let (a, b) = (f64::from(x[i]), f64::from(x[i + dim / 2]));
                    let tolerance = 2e-5 + position as f64 * 2e-6;
                    assert!((f64::from(out[i]) - (a * angle.cos() - b * angle.sin())).abs() < tolerance);
                    assert!(
                        (f64::from(out[i + dim / 2]) - (b * angle.cos() + a * angle.sin())).abs() < tolerance
                    );
                }
            }
            for isa in Isa::available() {
                let mut out = x.clone();
                table.apply(isa, &mut out, position);
                assert_eq!(out, expected, "{isa:?} {position}");
            }
        }
    }

    #[test]
    fn position_zero_leaves_heads_as_they_are() {
        let mut head = [1.0, 2.0, 3.0, 4.0];
        RopeTable::new(500_000.0, None, 4, 1).apply(Isa::best(), &mut head, 0);
        assert_eq!(head, [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn linear_scaling_divides_positions() {
        let scaling = RopeScaling::Linear { factor: 4.0 };
        let scaled = RopeTable::new(10_000.0, Some(&scaling), 64, 9);
        let plain = RopeTable::new(10_000.0, None, 64, 3);
        assert_eq!(scaled.cos[8 * 32..], plain.cos[2 * 32..]);
    }

    #[test]
    fn llama3_scaling_divides_long_waves_keeps_short_ones_and_ramps_between() {
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_positions: 8192,
        };
        let scaled = RopeTable::new(500_000.0, Some(&scaling), 128, 1);
        let plain = RopeTable::new(500_000.0, None, 128, 1);
        let mut ramp = 0;
        for (scaled, plain) in scaled.inv_freq.iter().zip(&plain.inv_freq) {
            let wavelength = std::f64::consts::TAU / f64::from(*plain);
            if wavelength < 2048.0 {
                assert_eq!(scaled, plain);
            } else if wavelength > 8192.0 {
                assert_eq!(*scaled, plain / 8.0);
            } else {
                let smooth = (8192.0 / wavelength - 1.0) / 3.0;
                let exact = f64::from(*plain) * ((1.0 - smooth) / 8.0 + smooth);
                assert!((f64::from(*scaled) / exact - 1.0).abs() < 1e-6);
                ramp += 1;
            }
        }
        assert!(ramp > 0);
    }
}
