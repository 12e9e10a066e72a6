//! A feed-forward in buffers.

use qsf_format::Activation;

use super::linears::{GpuLinear, linear, norm_gains, stack};
use super::weights::Uploader;
use super::wgsl::activation::Function;
use crate::error::Result;
use crate::weights::Mlp;

/// A feed-forward for all tokens.
pub struct GpuMlp {
    /// Whether there is a gate.
    pub gated: bool,
    /// What is done to each inner value.
    pub function: Function,
    /// Inner values.
    pub width: usize,
    /// Gate, where there is one, and up projection.
    pub inner: Vec<GpuLinear>,
    /// Gains of what the down projection reads.
    pub norm: Option<u32>,
    /// Gates below their mean and so many times their standard deviation are 0, and as much is taken off the others.
    pub cutoff: Option<f32>,
    /// Factors of xIELU above 0 and below.
    pub xielu: [f32; 2],
    /// Down projection.
    pub down: GpuLinear,
}

impl GpuMlp {
    /// Takes a feed-forward up.
    ///
    /// # Errors
    /// When a matrix does not fit.
    pub fn upload(uploader: &mut Uploader<'_>, weights: &Mlp) -> Result<GpuMlp> {
        let Mlp { gate, up, down, norm, cutoff, function: between } = weights;
        Ok(GpuMlp {
            gated: gate.is_some(),
            function: function(*between),
            width: up.weight.rows(),
            inner: stack(uploader, gate.iter().chain([up]))?,
            norm: norm_gains(uploader, norm),
            cutoff: *cutoff,
            xielu: match between {
                qsf_cpu::Function::Xielu { above, below } => [*above, *below],
                _ => [0.0; 2],
            },
            down: linear(uploader, down)?,
        })
    }
}

/// The function of a feed-forward, as kernels have it.
pub fn function(function: qsf_cpu::Function) -> Function {
    use qsf_cpu::Function as Of;
    Function::Named(match function {
        Of::GeluErf => Activation::GeluErf,
        Of::GeluTanh => Activation::GeluTanh,
        Of::Silu => Activation::Silu,
        Of::Relu => Activation::Relu,
        Of::Relu2 => Activation::Relu2,
        Of::Xielu { .. } => Activation::Xielu,
        Of::ClippedSilu { alpha, limit } => {
            return Function::Clipped { alpha: alpha.to_bits(), limit: limit.to_bits() };
        }
    })
}
