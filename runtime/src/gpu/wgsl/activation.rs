//! Activation functions, as expressions of WGSL.

use qsf_format::Activation;

/// What a feed-forward does to each of its inner values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// A function by its name.
    Named(Activation),
    /// With `y = min(x, limit)`, `y * sigmoid(alpha y)`; what it multiplies is limited on both sides, and greater by 1. The bits of both
    /// numbers are a part of the kernel.
    Clipped {
        /// Slope of the logistic function.
        alpha: u32,
        /// Largest value.
        limit: u32,
    },
}

/// What a gate `x` lets through of `u`; both are variables.
pub fn gated(function: Function, x: &str, u: &str) -> String {
    match function {
        Function::Named(_) => format!("{} * {u}", expression(function, x)),
        Function::Clipped { limit, .. } => {
            let limit = f32::from_bits(limit);
            format!("{} * (1.0 + clamp({u}, -{limit:?}, {limit:?}))", expression(function, x))
        }
    }
}

/// The function of the variable `x`.
pub fn expression(function: Function, x: &str) -> String {
    let activation = match function {
        Function::Named(activation) => activation,
        Function::Clipped { alpha, limit } => {
            let (alpha, limit) = (f32::from_bits(alpha), f32::from_bits(limit));
            return format!(
                "(min({x}, {limit:?}) / (1.0 + exp(min(-{alpha:?} * min({x}, {limit:?}), 80.0))))"
            );
        }
    };
    match activation {
        Activation::Silu => format!("({x} / (1.0 + exp(-{x})))"),
        Activation::Relu => format!("max({x}, 0.0)"),
        // Its factors are those of the layer (arXiv 2411.13010, `cpu/src/function.rs`), in the job of `activate.wgsl`: no gate has it.
        Activation::Xielu => {
            let below = format!("(exp(clamp({x}, -80.0, -1e-6)) - 1.0 - {x}) * job.below");
            format!("(0.5 * {x} + select({below}, job.above * {x} * {x}, {x} > 0.0))")
        }
        Activation::Relu2 => format!("(max({x}, 0.0) * max({x}, 0.0))"),
        // tanh of a large argument is not a number on some drivers, which make it of exponentials.
        Activation::GeluTanh => {
            let inner =
                format!("clamp(0.7978845608028654 * ({x} + 0.044715 * {x} * {x} * {x}), -15.0, 15.0)");
            format!("(0.5 * {x} * (1.0 + tanh({inner})))")
        }
        Activation::GeluErf => format!("(0.5 * {x} * (1.0 + error_function({x} * 0.7071067811865476)))"),
    }
}

/// What [`expression`] needs beside it: WGSL has no error function.
pub const ERROR_FUNCTION: &str = include_str!("error_function.wgsl");
