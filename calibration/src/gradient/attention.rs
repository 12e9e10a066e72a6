//! Attention of a layer: projections, what is between them and attention, gate, output.

use qsf_format::{NormKind, QkNorm, TensorKind};
use qsf_runtime::cpu::math::sigmoid;
use qsf_runtime::cpu::{Cpu, RopeTable, clip, scale};
use qsf_runtime::{Result, RuntimeError};

use super::attend::Attend;
use super::linear::Linear;
use super::norm::Norm;
use super::parameters::Parameters;
use super::place::Place;
use super::sink::Sink;

/// Attention of one layer.
pub(super) struct AttentionLayer<'a> {
    parameters: Parameters<'a>,
    index: u32,
    q: Linear,
    k: Linear,
    v: Linear,
    gate: Option<Linear>,
    output: Linear,
    place_q: Place<'a>,
    place_k: Place<'a>,
    value_norm: Option<Norm>,
    sub_norm: Option<Norm>,
    sinks: Vec<f32>,
    slopes: &'a [f32],
}

/// What is kept of a sequence on the way forwards.
pub(super) struct AttentionTape {
    /// Queries, keys and values as they leave their projections.
    raw: [Vec<f32>; 3],
    /// As attention reads them.
    placed: [Vec<f32>; 3],
    weights: Vec<f32>,
    attended: Vec<f32>,
    gate: Option<Vec<f32>>,
    /// Behind the gate.
    gated: Vec<f32>,
    /// What the output projection reads.
    read: Vec<f32>,
}

impl<'a> AttentionLayer<'a> {
    pub fn load(
        parameters: Parameters<'a>,
        index: u32,
        rope: Option<&'a RopeTable>,
        slopes: &'a [f32],
    ) -> Result<AttentionLayer<'a>> {
        use TensorKind::*;
        let config = parameters.config();
        let shape = config.attention_shape(index);
        let widths = [shape.heads, shape.kv_heads].map(|heads| heads * shape.key_dim);
        let head_norm = |kind, width: usize| -> Result<Option<Norm>> {
            Ok(match config.qk_norm {
                None => None,
                Some(QkNorm::RotatedHeadPlain) => {
                    Some(parameters.plain_norm(NormKind::RmsNorm, shape.key_dim))
                }
                Some(QkNorm::Projection) => Some(parameters.norm(kind, NormKind::RmsNorm, width)?),
                Some(QkNorm::HeadsApart) => {
                    Some(parameters.norm(kind, NormKind::LayerNorm, config.head_dim as usize)?)
                }
                Some(QkNorm::Head | QkNorm::RotatedHead) => {
                    Some(parameters.norm(kind, NormKind::RmsNorm, shape.key_dim)?)
                }
            })
        };
        let place = |kind, growth, width| -> Result<Place<'a>> {
            Ok(Place::new(config, head_norm(kind, width)?, rope, growth, [shape.key_dim, width]))
        };
        let output = parameters.linear(AttnOutput, Some(AttnOutputBias))?;
        Ok(AttentionLayer {
            q: parameters.linear(AttnQ, Some(AttnQBias))?,
            k: parameters.linear(AttnK, Some(AttnKBias))?,
            v: parameters.linear(AttnV, Some(AttnVBias))?,
            gate: parameters.linear_if_used(AttnGate, None)?,
            place_q: place(QNorm, config.query_growth, widths[0])?,
            place_k: place(KNorm, None, widths[1])?,
            value_norm: config
                .value_norm
                .then(|| parameters.plain_norm(NormKind::RmsNorm, config.query_dim(index))),
            sub_norm: parameters
                .is_used(AttnSubNorm)
                .then(|| parameters.norm(AttnSubNorm, NormKind::RmsNorm, output.cols()))
                .transpose()?,
            sinks: parameters.vector(AttnSinks)?.unwrap_or_default(),
            output,
            slopes,
            index,
            parameters,
        })
    }

    fn attend(&self, tokens: usize) -> Attend<'_> {
        let config = self.parameters.config();
        let shape = config.attention_shape(self.index);
        let window = config.window(self.index);
        Attend {
            tokens,
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            key_dim: shape.key_dim,
            value_dim: shape.value_dim,
            scale: config.attention_scale.unwrap_or(1.0 / (config.head_dim as f32).sqrt()),
            softcap: config.attention_softcap,
            window: window.map_or(usize::MAX, |size| size as usize),
            chunks: window.is_some() && config.window_chunks,
            slopes: self.slopes,
            sinks: &self.sinks,
        }
    }

    /// What attention adds for rows of `x`, and what the way back needs.
    pub fn forward(&self, cpu: &Cpu, x: &[f32]) -> Result<(Vec<f32>, AttentionTape)> {
        let config = self.parameters.config();
        let raw = [self.q.forward(cpu, x)?, self.k.forward(cpu, x)?, self.v.forward(cpu, x)?];
        let mut values = raw[2].clone();
        if let Some(limit) = config.qkv_clip {
            clip(cpu.isa(), &mut values, limit);
        }
        if let Some(factor) = self.value_factor() {
            scale(cpu.isa(), &mut values, factor);
        }
        if let Some(norm) = &self.value_norm {
            values = norm.forward(cpu, &values);
        }
        let placed = [self.place_q.forward(cpu, &raw[0]), self.place_k.forward(cpu, &raw[1]), values];
        let (attended, weights) =
            self.attend(x.len() / self.q.cols()).forward(cpu, &placed[0], &placed[1], &placed[2])?;
        let gate = self.gate.as_ref().map(|gate| gate.forward(cpu, x)).transpose()?;
        let mut gated = attended.clone();
        if let Some(gate) = &gate {
            gated.iter_mut().zip(gate).for_each(|(value, gate)| *value *= sigmoid(*gate));
        }
        let read = self.sub_norm.as_ref().map_or_else(|| gated.clone(), |norm| norm.forward(cpu, &gated));
        let out = self.output.forward(cpu, &read)?;
        Ok((out, AttentionTape { raw, placed, weights, attended, gate, gated, read }))
    }

    fn value_factor(&self) -> Option<f32> {
        self.parameters.config().value_heads.and_then(|values| values.scale)
    }

    /// Adds the gradient at `x`, which attention read, to `into`.
    pub fn backward(
        &mut self,
        sink: &mut Sink<'_>,
        x: &[f32],
        tape: &AttentionTape,
        given: &[f32],
        into: &mut [f32],
    ) -> Result<()> {
        let AttentionTape { raw, placed, weights, attended, gate, gated, read } = tape;
        let mut at = vec![0.0; read.len()];
        self.output.backward(sink, read, given, &mut at)?;
        if let Some(norm) = &self.sub_norm {
            let mut before = vec![0.0; gated.len()];
            norm.backward(sink, gated, &at, &mut before)?;
            at = before;
        }
        if let (Some(linear), Some(gate)) = (&mut self.gate, gate) {
            let mut at_gate = vec![0.0; gate.len()];
            for (((at, at_gate), gate), attended) in at.iter_mut().zip(&mut at_gate).zip(gate).zip(attended) {
                let s = sigmoid(*gate);
                *at_gate = *at * attended * s * (1.0 - s);
                *at *= s;
            }
            linear.backward(sink, x, &at_gate, into)?;
        }
        let attend = self.attend(x.len() / self.q.cols());
        let read_by = [&placed[0][..], &placed[1], &placed[2]];
        let gradients = attend.backward(sink.cpu, read_by, weights, &at)?;
        if !self.sinks.is_empty() {
            sink.add_vector(TensorKind::AttnSinks, 0, self.sinks.len(), &gradients.sinks)?;
        }
        let at_q = self.place_q.backward(sink, &raw[0], gradients.q)?;
        let at_k = self.place_k.backward(sink, &raw[1], gradients.k)?;
        let at_v = self.back_to_values(sink, &raw[2], gradients.v)?;
        self.q.backward(sink, x, &at_q, into)?;
        self.k.backward(sink, x, &at_k, into)?;
        self.v.backward(sink, x, &at_v, into)
    }

    fn back_to_values(&self, sink: &mut Sink<'_>, raw: &[f32], mut given: Vec<f32>) -> Result<Vec<f32>> {
        let config = self.parameters.config();
        let factor = self.value_factor().unwrap_or(1.0);
        if let Some(norm) = &self.value_norm {
            if config.qkv_clip.is_some() {
                return Err(RuntimeError::Request("values that are limited and normalized".into()));
            }
            let (mut scaled, mut before) = (raw.to_vec(), vec![0.0; raw.len()]);
            scale(sink.cpu.isa(), &mut scaled, factor);
            norm.backward(sink, &scaled, &given, &mut before)?;
            given = before;
        }
        scale(sink.cpu.isa(), &mut given, factor);
        if let Some(limit) = config.qkv_clip {
            for (given, value) in given.iter_mut().zip(raw) {
                *given *= f32::from((-limit..=limit).contains(value));
            }
        }
        Ok(given)
    }
}
