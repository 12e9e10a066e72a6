//! Slopes of the functions of a feed-forward.

use qsf_runtime::cpu::Function;
use qsf_runtime::cpu::math::{exp, sigmoid, tanh};

/// `sqrt(2 / pi)`, and the factor of the cube in the tanh approximation of GELU (arXiv 1606.08415).
const GELU: (f32, f32) = (0.797_884_6, 0.044_715);

/// The slope of `function` at `x`; where there is a bend, that on its left.
pub(super) fn slope(function: Function, x: f32) -> f32 {
    match function {
        Function::GeluErf => {
            let x = f64::from(x);
            let below = 0.5 * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2));
            let density = libm::exp(-0.5 * x * x) / (2.0 * std::f64::consts::PI).sqrt();
            (below + x * density) as f32
        }
        Function::GeluTanh => {
            let (root, cube) = GELU;
            let t = tanh(root * (x + cube * x * x * x));
            0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3.0 * cube * x * x)
        }
        Function::Silu => silu_slope(x, 1.0),
        Function::Relu => f32::from(x > 0.0),
        Function::Relu2 => 2.0 * x.max(0.0),
        Function::Xielu { above, below } => {
            let curved = if x > 0.0 { 2.0 * above * x } else { below * (exp(x.min(0.0)) - 1.0) };
            0.5 + curved
        }
        Function::ClippedSilu { alpha, limit } => {
            if x > limit {
                0.0
            } else {
                silu_slope(x, alpha)
            }
        }
    }
}

/// The slope of `x * sigmoid(alpha * x)`.
fn silu_slope(x: f32, alpha: f32) -> f32 {
    let s = sigmoid(alpha * x);
    s * (1.0 + alpha * x * (1.0 - s))
}

/// What the gate of `function` is multiplied with, and its slope, for the output `up` of the up projection.
pub(super) fn factor(function: Function, up: f32) -> (f32, f32) {
    match function {
        Function::ClippedSilu { limit, .. } => {
            (1.0 + up.clamp(-limit, limit), f32::from((-limit..=limit).contains(&up)))
        }
        _ => (up, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use qsf_runtime::cpu::{Isa, activate};

    use super::*;

    #[test]
    fn slopes_are_those_of_small_steps() {
        let functions = [
            Function::GeluErf,
            Function::GeluTanh,
            Function::Silu,
            Function::Relu,
            Function::Relu2,
            Function::Xielu { above: 0.8, below: 0.7 },
            Function::ClippedSilu { alpha: 1.7, limit: 1.5 },
        ];
        for function in functions {
            for x in [-3.0_f32, -0.4, 0.3, 1.2, 4.0] {
                const STEP: f32 = 1.0 / 128.0;
                let mut ends = [x - STEP, x + STEP];
                activate(Isa::best(), function, &mut ends);
                let measured = (ends[1] - ends[0]) / (2.0 * STEP);
                let found = slope(function, x);
                assert!((found - measured).abs() < 2e-4, "{function:?} at {x}: {found}, {measured}");
            }
        }
    }
}
