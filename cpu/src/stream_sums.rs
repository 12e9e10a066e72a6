//! What residual streams beside each other, and gates of which most are 0, ask of a row besides norms: magnitudes, cut-offs, products
//! with a few rows.

use super::elementwise::scale;
use super::isa::{Isa, Vectorized};
use super::lanes::{LANES, dot, load, sum};

/// The least mean square that a row is divided by (transformers, `Gemma3nTextModel`).
const LEAST: f32 = 1e-5;

/// `sqrt(mean(x^2))`.
pub fn magnitude(isa: Isa, x: &[f32]) -> f32 {
    isa.vectorize(MeanSquare { x }).sqrt()
}

/// Makes [`magnitude`] of `x` that which is given; a row of next to nothing stays small.
pub fn rescale(isa: Isa, x: &mut [f32], magnitude: f32) {
    let found = isa.vectorize(MeanSquare { x }).max(LEAST).sqrt();
    scale(isa, x, magnitude / found);
}

/// `x = max(0, x - mean(x) - deviations * deviation(x))`, by the standard deviation of all values of `x`.
pub fn cut_off(isa: Isa, x: &mut [f32], deviations: f32) {
    isa.vectorize(CutOff { x, deviations });
}

/// `out[i]` is the product of row i of `rows` with `x`.
///
/// # Panics
/// When the lengths do not fit.
pub fn products(isa: Isa, rows: &[f32], x: &[f32], out: &mut [f32]) {
    assert_eq!(rows.len(), x.len() * out.len(), "products of different lengths");
    isa.vectorize(RowProducts { rows, x, out });
}

struct MeanSquare<'a> {
    x: &'a [f32],
}

impl Vectorized for MeanSquare<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        dot(self.x, self.x) / self.x.len() as f32
    }
}

struct CutOff<'a> {
    x: &'a mut [f32],
    deviations: f32,
}

impl Vectorized for CutOff<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let count = self.x.len() as f32;
        let (mut all, mut squares) = ([0.0; LANES], [0.0; LANES]);
        for values in self.x.chunks(LANES) {
            let values = load(values);
            for i in 0..LANES {
                all[i] += values[i];
            }
        }
        let mean = sum(all) / count;
        for values in self.x.chunks(LANES) {
            let loaded = load(values);
            // Lanes behind the end hold nothing.
            for i in 0..values.len() {
                let off = loaded[i] - mean;
                squares[i] += off * off;
            }
        }
        let cutoff = mean + (sum(squares) / count).sqrt() * self.deviations;
        for x in self.x {
            *x = (*x - cutoff).max(0.0);
        }
    }
}

struct RowProducts<'a> {
    rows: &'a [f32],
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Vectorized for RowProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (out, row) in self.out.iter_mut().zip(self.rows.chunks_exact(self.x.len())) {
            *out = dot(row, self.x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 37 % 101) as f32 - 40.0) / 7.0).collect()
    }

    #[test]
    fn a_cut_off_keeps_what_is_above_mean_and_deviations_on_every_instruction_set() {
        for count in [1, 15, 16, 17, 100] {
            let x = values(count);
            let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / count as f64;
            let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count as f64;
            for deviations in [-1.0, 0.0, 1.25] {
                let mut plain = x.clone();
                cut_off(Isa::SCALAR, &mut plain, deviations);
                let cutoff = mean + variance.sqrt() * f64::from(deviations);
                for (found, x) in plain.iter().zip(&x) {
                    let expected = (f64::from(*x) - cutoff).max(0.0);
                    assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} {expected}");
                }
                for isa in Isa::available() {
                    let mut fast = x.clone();
                    cut_off(isa, &mut fast, deviations);
                    assert_eq!(fast, plain);
                }
            }
        }
    }

    #[test]
    fn a_row_gets_the_magnitude_that_is_asked_for_unless_it_is_next_to_nothing() {
        let mut x = values(45);
        rescale(Isa::SCALAR, &mut x, 2.5);
        assert!((magnitude(Isa::SCALAR, &x) - 2.5).abs() < 1e-5);
        let mut nothing = vec![1e-6; 45];
        rescale(Isa::SCALAR, &mut nothing, 1.0);
        assert!(nothing.iter().all(|x| (x - 1e-6 / LEAST.sqrt()).abs() < 1e-9));
    }

    #[test]
    fn products_are_those_of_the_rows() {
        let (rows, x) = (values(3 * 21), values(21));
        let mut out = [0.0; 3];
        products(Isa::SCALAR, &rows, &x, &mut out);
        for (row, out) in rows.chunks(21).zip(out) {
            let expected: f64 = row.iter().zip(&x).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((f64::from(out) - expected).abs() < 1e-3, "{out} {expected}");
        }
    }
}
