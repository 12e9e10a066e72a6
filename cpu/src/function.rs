//! The functions of a feed-forward, alone and with what they multiply.

use qsf_format::Activation;

use super::math::{exp_minus_one_below, gelu_erf, gelu_tanh, sigmoid, silu};

/// The linear part of [`Function::Xielu`] (arXiv 2411.13010, section 3.3).
const XIELU_BETA: f32 = 0.5;
/// Its exponential is cut off here, just below 0.
const XIELU_EDGE: f32 = -1e-6;

/// What a feed-forward does to each of its inner values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Function {
    /// `x * Phi(x)` by the error function.
    GeluErf,
    /// The tanh approximation of GELU.
    GeluTanh,
    /// `x * sigmoid(x)`.
    Silu,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    Relu2,
    /// `above x^2 + x / 2` for x above 0, else `below (e^x - 1 - x) + x / 2`.
    Xielu {
        /// Factor of the square.
        above: f32,
        /// Factor of the exponential.
        below: f32,
    },
    /// With `y = min(x, limit)`, `y * sigmoid(alpha y)`; what it multiplies is limited on both sides, and greater by 1.
    ClippedSilu {
        /// Slope of the logistic function.
        alpha: f32,
        /// Largest value.
        limit: f32,
    },
}

impl From<Activation> for Function {
    /// The function by its name; one with factors of the layer has none of them yet.
    fn from(activation: Activation) -> Function {
        match activation {
            Activation::GeluErf => Function::GeluErf,
            Activation::GeluTanh => Function::GeluTanh,
            Activation::Silu => Function::Silu,
            Activation::Relu => Function::Relu,
            Activation::Relu2 => Function::Relu2,
            Activation::Xielu => Function::Xielu { above: 0.0, below: 0.0 },
        }
    }
}

impl Function {
    /// xIELU by the two values that a layer stores.
    pub fn xielu(stored_above: f32, stored_below: f32) -> Function {
        let softplus = |x: f32| libm::log1p(libm::exp(f64::from(x))) as f32;
        // Beyond 80 the logarithm of the sum is the larger part to the last bit.
        let softplus = |x: f32| if x > 80.0 { x } else { softplus(x) };
        Function::Xielu { above: softplus(stored_above), below: XIELU_BETA + softplus(stored_below) }
    }

    /// `x = function(x)`.
    #[inline(always)]
    pub(super) fn apply(self, x: &mut [f32]) {
        // One loop per function: a choice inside the loop would keep it from becoming vector code.
        match self {
            Function::GeluErf => x.iter_mut().for_each(|x| *x = gelu_erf(*x)),
            Function::GeluTanh => x.iter_mut().for_each(|x| *x = gelu_tanh(*x)),
            Function::Silu => x.iter_mut().for_each(|x| *x = silu(*x)),
            Function::Relu => x.iter_mut().for_each(|x| *x = relu(*x)),
            Function::Relu2 => x.iter_mut().for_each(|x| *x = relu2(*x)),
            Function::Xielu { above, below } => x.iter_mut().for_each(|x| *x = xielu(*x, above, below)),
            Function::ClippedSilu { alpha, limit } => {
                x.iter_mut().for_each(|x| *x = clipped_silu(*x, alpha, limit));
            }
        }
    }

    /// `gate = function(gate) * up`.
    #[inline(always)]
    pub(super) fn gate(self, gate: &mut [f32], up: &[f32]) {
        let pairs = gate.iter_mut().zip(up);
        match self {
            Function::GeluErf => pairs.for_each(|(gate, up)| *gate = gelu_erf(*gate) * up),
            Function::GeluTanh => pairs.for_each(|(gate, up)| *gate = gelu_tanh(*gate) * up),
            Function::Silu => pairs.for_each(|(gate, up)| *gate = silu(*gate) * up),
            Function::Relu => pairs.for_each(|(gate, up)| *gate = relu(*gate) * up),
            Function::Relu2 => pairs.for_each(|(gate, up)| *gate = relu2(*gate) * up),
            Function::Xielu { above, below } => {
                pairs.for_each(|(gate, up)| *gate = xielu(*gate, above, below) * up);
            }
            Function::ClippedSilu { alpha, limit } => pairs.for_each(|(gate, up)| {
                *gate = clipped_silu(*gate, alpha, limit) * (1.0 + up.clamp(-limit, limit));
            }),
        }
    }
}

/// `out = function(gate) * up`.
#[inline(always)]
pub fn gate(function: Function, gate: &[f32], up: &[f32], out: &mut [f32]) {
    out.copy_from_slice(gate);
    function.gate(out, up);
}

/// NaN stays NaN: `f32::max` would hide it.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[inline(always)]
fn relu2(x: f32) -> f32 {
    let x = relu(x);
    x * x
}

#[inline(always)]
fn xielu(x: f32, above: f32, below: f32) -> f32 {
    // Both, and then one of them: a branch would keep this from becoming vector code.
    let positive = above * x * x;
    let edge = if x > XIELU_EDGE { XIELU_EDGE } else { x };
    let negative = (exp_minus_one_below(edge) - x) * below;
    let curved = if x > 0.0 { positive } else { negative };
    XIELU_BETA.mul_add(x, curved)
}

#[inline(always)]
fn clipped_silu(x: f32, alpha: f32, limit: f32) -> f32 {
    let x = if x > limit { limit } else { x };
    x * sigmoid(alpha * x)
}
