//! Steps, decays and rates of states, of the values that projections give.

use crate::isa::{Isa, Vectorized};
use crate::math::{exp, sigmoid, softplus};

/// `x = softplus(x + bias)` for rows of as many values as `bias` has.
pub fn positive_steps(isa: Isa, x: &mut [f32], bias: &[f32]) {
    isa.vectorize(PositiveSteps { x, bias });
}

struct PositiveSteps<'a> {
    x: &'a mut [f32],
    bias: &'a [f32],
}

impl Vectorized for PositiveSteps<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for row in self.x.chunks_exact_mut(self.bias.len()) {
            for (x, bias) in row.iter_mut().zip(self.bias) {
                *x = softplus(*x + bias);
            }
        }
    }
}

/// `step = e^(factor * step)` for rows of `width` values, each factor for as many of a row.
pub fn decays(isa: Isa, steps: &mut [f32], width: usize, factors: &[f32]) {
    isa.vectorize(Decays { steps, width, factors });
}

struct Decays<'a> {
    steps: &'a mut [f32],
    width: usize,
    factors: &'a [f32],
}

impl Vectorized for Decays<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let run = self.width / self.factors.len();
        for row in self.steps.chunks_exact_mut(self.width) {
            // As one loop the short runs of a value are vectors, too.
            if run == 1 {
                for (step, factor) in row.iter_mut().zip(self.factors) {
                    *step = exp(factor * *step);
                }
                continue;
            }
            for (steps, factor) in row.chunks_exact_mut(run).zip(self.factors) {
                for step in steps {
                    *step = exp(factor * *step);
                }
            }
        }
    }
}

/// `x = sigmoid(x) * scale`.
pub fn rates(isa: Isa, x: &mut [f32], scale: f32) {
    isa.vectorize(Rates { x, scale });
}

struct Rates<'a> {
    x: &'a mut [f32],
    scale: f32,
}

impl Vectorized for Rates<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for x in self.x {
            *x = sigmoid(*x) * self.scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_follow_the_formulas_with_the_same_bits_on_every_instruction_set() {
        for (width, factors) in [(1, 1), (16, 16), (40, 2), (54, 3)] {
            let x: Vec<f32> = (0..3 * width).map(|i| (i * 37 % 101) as f32 * 0.5 - 25.0).collect();
            let bias: Vec<f32> = (0..width).map(|i| i as f32 * 0.1 - 1.0).collect();
            let factors: Vec<f32> = (0..factors).map(|i| -0.1 - i as f32).collect();
            let all = |isa| {
                let (mut steps, mut rate) = (x.clone(), x.clone());
                positive_steps(isa, &mut steps, &bias);
                let mut decay = steps.clone();
                decays(isa, &mut decay, width, &factors);
                rates(isa, &mut rate, 2.0);
                [steps, decay, rate]
            };
            let [steps, decay, rate] = all(Isa::SCALAR);
            let near = |found: f32, exact: f64| (f64::from(found) - exact).abs() < 1e-6 * exact.abs() + 1e-30;
            for i in 0..x.len() {
                let (value, column) = (f64::from(x[i]), i % width);
                let step = libm::log1p(libm::exp(f64::from(x[i] + bias[column])));
                assert!(near(steps[i], step), "{i}: {} {step}", steps[i]);
                let factor = f64::from(factors[column * factors.len() / width]);
                let exact = libm::exp(factor * f64::from(steps[i]));
                assert!(
                    (f64::from(decay[i]) - exact).abs() < 1e-5 * exact + 1e-30,
                    "{i}: {} {exact}",
                    decay[i]
                );
                assert!(near(rate[i], 2.0 / (1.0 + libm::exp(-value))), "{i}: {}", rate[i]);
            }
            for isa in Isa::available() {
                assert_eq!(all(isa), [&steps, &decay, &rate].map(Vec::clone), "{isa:?} {width}");
            }
        }
    }
}
