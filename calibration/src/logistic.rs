//! Logistic regression: how likely something is, by the product of a row of values with weights.
//!
//! Everything is summed in f64 in one order, on one thread: the weights go into a file. The exponential is the project's
//! own, not the system's (`qsf_runtime::cpu::math`).

use qsf_runtime::cpu::math::{exp, sigmoid};

/// Steps of the descent; few change the result any more.
const STEPS: usize = 120;
/// Steps of the power iteration for the largest curvature.
const POWER_STEPS: usize = 12;
/// The estimate of the curvature is from below, and a step must not be too long.
const CAUTION: f64 = 1.3;
/// Weights of the square of the weights that are tried, against the mean loss of a position.
const RIDGES: [f64; 4] = [1.0, 0.1, 0.01, 0.001];

/// Rows of values, and for each whether it happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Examples {
    /// Rows x columns.
    pub rows: Vec<f32>,
    /// One per row.
    pub happened: Vec<bool>,
}

/// A regression: `1 / (1 + e^-(weights . x + bias))`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Regression {
    pub weights: Vec<f32>,
    pub bias: f32,
}

impl Regression {
    /// Learns from `seen`; how far it may trust that is what does best on `others`.
    pub fn learn(cols: usize, seen: &Examples, others: &Examples) -> Regression {
        let scaled = Scaled::new(cols, seen);
        let mut weights = vec![0.0; cols + 1];
        let mut best: Option<(f64, Regression)> = None;
        for ridge in RIDGES {
            // From the stiffest on, each begins where the one before ended.
            scaled.descend(ridge, &mut weights);
            let found = scaled.unscaled(&weights);
            let loss = found.loss(others);
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, found));
            }
        }
        best.expect("some ridge was tried").1
    }

    /// How likely it is, for a row.
    pub fn likelihood(&self, row: &[f32]) -> f32 {
        let product: f64 = self.weights.iter().zip(row).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
        sigmoid((product + f64::from(self.bias)) as f32)
    }

    /// Mean squared difference of likelihoods from what happened (Brier).
    fn loss(&self, examples: &Examples) -> f64 {
        let rows = examples.rows.chunks_exact(self.weights.len());
        let squares = rows.zip(&examples.happened).map(|(row, happened)| {
            let off = f64::from(self.likelihood(row)) - f64::from(u8::from(*happened));
            off * off
        });
        squares.sum::<f64>() / examples.happened.len().max(1) as f64
    }
}

/// Examples whose columns have mean 0 and variance 1, with a column of ones behind them.
struct Scaled<'a> {
    cols: usize,
    rows: Vec<f32>,
    happened: &'a [bool],
    means: Vec<f64>,
    deviations: Vec<f64>,
    /// The largest eigenvalue of the mean of `x x^T`, about.
    curvature: f64,
}

impl<'a> Scaled<'a> {
    fn new(cols: usize, examples: &'a Examples) -> Scaled<'a> {
        let count = examples.happened.len().max(1) as f64;
        let (mut means, mut squares) = (vec![0f64; cols], vec![0f64; cols]);
        for row in examples.rows.chunks_exact(cols) {
            for ((mean, square), x) in means.iter_mut().zip(&mut squares).zip(row) {
                *mean += f64::from(*x) / count;
                *square += f64::from(*x) * f64::from(*x) / count;
            }
        }
        // A column that is always the same says nothing, and gets no weight.
        let deviation = |(mean, square): (&f64, &f64)| (square - mean * mean).max(0.0).sqrt();
        let deviations: Vec<f64> = means.iter().zip(&squares).map(deviation).collect();
        let mut rows = Vec::with_capacity(examples.happened.len() * (cols + 1));
        for row in examples.rows.chunks_exact(cols) {
            for ((x, mean), deviation) in row.iter().zip(&means).zip(&deviations) {
                rows.push(if *deviation > 0.0 { ((f64::from(*x) - mean) / deviation) as f32 } else { 0.0 });
            }
            rows.push(1.0);
        }
        let mut scaled =
            Scaled { cols, rows, happened: &examples.happened, means, deviations, curvature: 1.0 };
        scaled.curvature = scaled.largest_curvature();
        scaled
    }

    fn largest_curvature(&self) -> f64 {
        let width = self.cols + 1;
        let mut direction = vec![1.0 / (width as f64).sqrt(); width];
        let mut length = 1.0;
        for _ in 0..POWER_STEPS {
            let mut next = vec![0.0; width];
            for row in self.rows.chunks_exact(width) {
                add_scaled(&mut next, dot(row, &direction) / self.happened.len() as f64, row);
            }
            length = next.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
            direction = next.into_iter().map(|v| v / length).collect();
        }
        length * CAUTION
    }

    /// Accelerated descent (Nesterov 1983) on the mean logistic loss and `ridge / 2` times the square of the weights, the
    /// bias aside.
    fn descend(&self, ridge: f64, weights: &mut Vec<f64>) {
        let width = self.cols + 1;
        // The logistic loss curves at most a quarter as much as its argument.
        let step = 1.0 / (self.curvature / 4.0 + ridge);
        let (mut ahead, mut momentum) = (weights.clone(), 1.0f64);
        for _ in 0..STEPS {
            let mut slope: Vec<f64> = ahead.iter().map(|w| ridge * w).collect();
            slope[self.cols] = 0.0;
            for (row, happened) in self.rows.chunks_exact(width).zip(self.happened) {
                let likelihood = 1.0 / (1.0 + f64::from(exp(-dot(row, &ahead) as f32)));
                let off = likelihood - f64::from(u8::from(*happened));
                add_scaled(&mut slope, off / self.happened.len() as f64, row);
            }
            let next: Vec<f64> = ahead.iter().zip(&slope).map(|(w, slope)| w - step * slope).collect();
            let after = (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt()) / 2.0;
            let push = (momentum - 1.0) / after;
            ahead = next.iter().zip(&*weights).map(|(new, old)| new + push * (new - old)).collect();
            (*weights, momentum) = (next, after);
        }
    }

    /// The regression with these weights, of values as they are rather than centred and scaled.
    fn unscaled(&self, weights: &[f64]) -> Regression {
        let mut bias = weights[self.cols];
        let mut plain = Vec::with_capacity(self.cols);
        for ((w, mean), deviation) in weights.iter().zip(&self.means).zip(&self.deviations) {
            let weight = if *deviation > 0.0 { w / deviation } else { 0.0 };
            bias -= weight * mean;
            plain.push(weight as f32);
        }
        Regression { weights: plain, bias: bias as f32 }
    }
}

fn dot(row: &[f32], weights: &[f64]) -> f64 {
    row.iter().zip(weights).map(|(x, w)| f64::from(*x) * w).sum()
}

fn add_scaled(sum: &mut [f64], factor: f64, row: &[f32]) {
    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += factor * f64::from(*x));
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLS: usize = 6;

    /// Rows of which column 1, and a little column 4, decide; the columns are of very different sizes.
    fn examples(count: usize, seed: u64) -> Examples {
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let mut examples = Examples::default();
        for _ in 0..count {
            let row: Vec<f32> = (0..COLS).map(|i| random() * 10f32.powi(i as i32) + i as f32).collect();
            let signal = 8.0 * (row[1] - 1.0) / 10.0 + 2.0 * (row[4] - 4.0) / 1e4;
            examples.happened.push(signal + random() > 0.3);
            examples.rows.extend(row);
        }
        examples
    }

    #[test]
    fn what_decides_is_found_whatever_the_sizes_of_the_columns() {
        let (seen, others, new) = (examples(800, 1), examples(400, 2), examples(1000, 3));
        let found = Regression::learn(COLS, &seen, &others);
        let rows = new.rows.chunks_exact(COLS).zip(&new.happened);
        let right = rows.filter(|(row, happened)| (found.likelihood(row) > 0.5) == **happened).count();
        assert!(right > 920, "{right} of 1000");
        assert!(found.weights[1] > 0.5 && found.weights[4] > 0.0, "{found:?}");
        assert_eq!(found, Regression::learn(COLS, &seen, &others));
    }

    #[test]
    fn likelihoods_are_how_often_it_happens() {
        let (seen, others, new) = (examples(800, 4), examples(400, 5), examples(4000, 6));
        let found = Regression::learn(COLS, &seen, &others);
        let likelihoods: Vec<f32> = new.rows.chunks_exact(COLS).map(|row| found.likelihood(row)).collect();
        let sure: Vec<bool> =
            likelihoods.iter().zip(&new.happened).filter(|(p, _)| **p > 0.8).map(|(_, h)| *h).collect();
        let share = sure.iter().filter(|happened| **happened).count() as f64 / sure.len() as f64;
        assert!(sure.len() > 300 && share > 0.8, "{share} of {}", sure.len());
    }

    #[test]
    fn examples_that_are_all_alike_give_finite_numbers() {
        for happened in [true, false] {
            let examples = Examples { rows: vec![1.0; 4 * COLS], happened: vec![happened; 4] };
            let found = Regression::learn(COLS, &examples, &examples);
            assert_eq!(found.likelihood(&[1.0; COLS]) > 0.5, happened);
            let none = Regression::learn(COLS, &Examples::default(), &examples);
            assert!(none.weights.iter().chain([&none.bias]).all(|value| value.is_finite()));
        }
    }
}
