//! Activation functions, as expressions of WGSL.

use qsf_format::Activation;

/// The activation of the variable `x`.
pub fn expression(activation: Activation, x: &str) -> String {
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
