//! A feed-forward of all tokens, or of those of an expert.

use qsf_format::{Activation, GateClip, NormKind, TensorKind};
use qsf_runtime::Result;
use qsf_runtime::cpu::{Cpu, Function, activate, gated, scale};

use super::function::{factor, slope};
use super::linear::Linear;
use super::norm::Norm;
use super::parameters::Parameters;
use super::sink::Sink;

/// What an activation costs, in multiply-adds of matrices.
const WORK: usize = 32;

/// Its matrices, and what is between them.
pub(super) struct FeedForward {
    pub gate: Option<Linear>,
    pub up: Linear,
    pub norm: Option<Norm>,
    pub down: Linear,
    pub function: Function,
    /// What the gate is multiplied with.
    pub gate_factor: f32,
}

/// What is kept of a sequence on the way forwards.
pub(super) struct FeedForwardTape {
    gate: Option<Vec<f32>>,
    up: Vec<f32>,
    inner: Vec<f32>,
    /// What the down projection reads.
    read: Vec<f32>,
}

impl FeedForward {
    /// That of all tokens.
    pub fn load(parameters: &Parameters<'_>) -> Result<FeedForward> {
        use TensorKind::*;
        let config = parameters.config();
        let gate = parameters.linear_if_used(FfnGate, Some(FfnGateBias))?;
        let down = parameters.linear(FfnDown, Some(FfnDownBias))?;
        let norm = parameters
            .is_used(FfnSubNorm)
            .then(|| parameters.norm(FfnSubNorm, NormKind::RmsNorm, down.cols()))
            .transpose()?;
        Ok(FeedForward {
            gate,
            up: parameters.linear(FfnUp, Some(FfnUpBias))?,
            norm,
            down,
            function: function_of(parameters)?,
            gate_factor: config.multipliers.map_or(1.0, |multipliers| multipliers.ffn_gate),
        })
    }

    /// What it adds for rows of `x`, and what the way back needs.
    pub fn forward(&self, cpu: &Cpu, x: &[f32]) -> Result<(Vec<f32>, FeedForwardTape)> {
        let (isa, width) = (cpu.isa(), self.up.rows());
        let up = self.up.forward(cpu, x)?;
        let mut gate = self.gate.as_ref().map(|gate| gate.forward(cpu, x)).transpose()?;
        if let Some(gate) = gate.as_mut().filter(|_| self.gate_factor != 1.0) {
            scale(isa, gate, self.gate_factor);
        }
        let mut inner = gate.clone().unwrap_or_else(|| up.clone());
        cpu.for_each_rows([(&mut inner, width)], WORK * width, |first, [rows]| match &gate {
            Some(_) => gated(isa, self.function, rows, &up[first * width..][..rows.len()]),
            None => activate(isa, self.function, rows),
        });
        let read = self.norm.as_ref().map_or_else(|| inner.clone(), |norm| norm.forward(cpu, &inner));
        let out = self.down.forward(cpu, &read)?;
        Ok((out, FeedForwardTape { gate, up, inner, read }))
    }

    /// Adds the gradient at `x`, which it read, to `into`.
    pub fn backward(
        &mut self,
        sink: &mut Sink<'_>,
        x: &[f32],
        tape: &FeedForwardTape,
        given: &[f32],
        into: &mut [f32],
    ) -> Result<()> {
        let FeedForwardTape { gate, up, inner, read } = tape;
        let mut at = vec![0.0; read.len()];
        self.down.backward(sink, read, given, &mut at)?;
        if let Some(norm) = &self.norm {
            let mut before = vec![0.0; inner.len()];
            norm.backward(sink, inner, &at, &mut before)?;
            at = before;
        }
        let (function, width) = (self.function, self.up.rows());
        let (Some(linear), Some(gate)) = (&mut self.gate, gate) else {
            sink.cpu.for_each_rows([(&mut at, width)], WORK * width, |first, [at]| {
                let up = &up[first * width..];
                at.iter_mut().zip(up).for_each(|(at, up)| *at *= slope(function, *up));
            });
            return self.up.backward(sink, x, &at, into);
        };
        // What the function gives of the gate alone.
        let mut alone = gate.clone();
        let mut at_gate = vec![0.0; gate.len()];
        let isa = sink.cpu.isa();
        let by = self.gate_factor;
        let rows = [(&mut at[..], width), (&mut at_gate, width), (&mut alone, width)];
        sink.cpu.for_each_rows(rows, 2 * WORK * width, |first, [at, at_gate, alone]| {
            activate(isa, function, alone);
            let (gate, up) = (&gate[first * width..], &up[first * width..]);
            let values = at.iter_mut().zip(at_gate).zip(alone).zip(gate).zip(up);
            for ((((at, at_gate), alone), gate), up) in values {
                let (times, rise) = factor(function, *up);
                *at_gate = *at * times * slope(function, *gate) * by;
                *at *= *alone * rise;
            }
        });
        linear.backward(sink, x, &at_gate, into)?;
        self.up.backward(sink, x, &at, into)
    }
}

/// The function of the feed-forward of a layer.
pub(super) fn function_of(parameters: &Parameters<'_>) -> Result<Function> {
    use TensorKind::{FfnActAbove, FfnActBelow};
    let config = parameters.config();
    if let Some(GateClip { alpha, limit }) = config.gate_clip {
        return Ok(Function::ClippedSilu { alpha, limit });
    }
    if config.activation != Activation::Xielu {
        return Ok(config.activation.into());
    }
    let value =
        |kind| Ok::<_, qsf_runtime::RuntimeError>(parameters.vector(kind)?.and_then(|v| v.first().copied()));
    Ok(Function::xielu(value(FfnActAbove)?.unwrap_or_default(), value(FfnActBelow)?.unwrap_or_default()))
}
