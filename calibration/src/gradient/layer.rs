//! One layer over one sequence: attention and feed-forward, and the residual stream that both add to.

use qsf_format::{Multipliers, Residual, TensorKind};
use qsf_runtime::Result;
use qsf_runtime::cpu::{Cpu, RopeTable, add_assign, scale};

use super::attention::{AttentionLayer, AttentionTape};
use super::experts::{Mixture, MixtureTape};
use super::feed_forward::{FeedForward, FeedForwardTape};
use super::norm::Norm;
use super::parameters::Parameters;
use super::sink::Sink;

/// The parts of a layer.
pub(super) struct Layer<'a> {
    attn_norm: Option<Norm>,
    attention: Option<AttentionLayer<'a>>,
    post_attn_norm: Option<Norm>,
    ffn_norm: Option<Norm>,
    ffn: Option<Ffn<'a>>,
    post_ffn_norm: Option<Norm>,
    scale: Option<f32>,
    residual: Residual,
    residual_scale: f32,
    multipliers: Multipliers,
}

#[expect(clippy::large_enum_variant, reason = "there is one for each layer")]
enum Ffn<'a> {
    Dense(FeedForward),
    Experts(Mixture<'a>),
}

enum FfnTape {
    Dense(FeedForwardTape),
    Experts(MixtureTape),
}

/// What is kept of a sequence on the way forwards.
pub(super) struct LayerTape {
    mixer: Option<MixerTape>,
    /// The stream between attention and feed-forward.
    middle: Vec<f32>,
    ffn: Option<(Vec<f32>, FfnTape, Vec<f32>)>,
    /// What leaves the layer, before it is multiplied.
    unscaled: Vec<f32>,
}

struct MixerTape {
    read: Vec<f32>,
    tape: AttentionTape,
    given: Vec<f32>,
}

impl<'a> Layer<'a> {
    pub fn load(
        parameters: Parameters<'a>,
        index: u32,
        rope: Option<&'a RopeTable>,
        slopes: &'a [f32],
    ) -> Result<Layer<'a>> {
        use TensorKind::*;
        let config = parameters.config();
        let placement = config.placement(index);
        let (mixer, ffn) = (config.has_attention(index), config.has_feed_forward(index));
        let one_norm = config.residual == Residual::ParallelOneNorm;
        let norm = |wanted: bool, gain, bias| -> Result<Option<Norm>> {
            wanted.then(|| parameters.stream_norm(gain, bias)).transpose()
        };
        let (pre, post) = (placement.has_pre(), placement.has_post());
        Ok(Layer {
            attn_norm: norm(pre && mixer, AttnNorm, Some(AttnNormBias))?,
            attention: match mixer {
                true => Some(AttentionLayer::load(parameters, index, rope, slopes)?),
                false => None,
            },
            post_attn_norm: norm(post && mixer, PostAttnNorm, None)?,
            ffn_norm: norm(pre && ffn && !one_norm, FfnNorm, Some(FfnNormBias))?,
            ffn: match (ffn, config.experts(index)) {
                (false, _) => None,
                (true, None) => Some(Ffn::Dense(FeedForward::load(&parameters)?)),
                (true, Some(experts)) => Some(Ffn::Experts(Mixture::load(parameters, experts)?)),
            },
            post_ffn_norm: norm(post && ffn, PostFfnNorm, None)?,
            scale: parameters.vector(LayerScale)?.and_then(|values| values.first().copied()),
            residual: config.residual,
            residual_scale: config.residual_scale.unwrap_or(1.0),
            multipliers: config.multipliers.unwrap_or(Multipliers::ONES),
        })
    }

    /// What leaves the layer for rows of `x`, and what the way back needs.
    pub fn forward(&self, cpu: &Cpu, x: &[f32]) -> Result<(Vec<f32>, LayerTape)> {
        let mut middle = x.to_vec();
        let mut mixer = None;
        if let Some(attention) = &self.attention {
            let read = normed(cpu, self.attn_norm.as_ref(), x);
            let (mut given, tape) = attention.forward(cpu, &read)?;
            multiply(cpu, &mut given, self.multipliers.attention);
            self.add(cpu, &mut middle, self.post_attn_norm.as_ref(), &given);
            mixer = Some(MixerTape { read, tape, given });
        }
        let mut unscaled = middle.clone();
        let mut of_ffn = None;
        if let Some(ffn) = &self.ffn {
            let read = match (self.residual, &mixer) {
                (Residual::ParallelOneNorm, Some(mixer)) => mixer.read.clone(),
                (Residual::Parallel, _) => normed(cpu, self.ffn_norm.as_ref(), x),
                _ => normed(cpu, self.ffn_norm.as_ref(), &middle),
            };
            let (mut given, tape) = match ffn {
                Ffn::Dense(mlp) => {
                    let (given, tape) = mlp.forward(cpu, &read)?;
                    (given, FfnTape::Dense(tape))
                }
                Ffn::Experts(mixture) => {
                    let (given, tape) = mixture.forward(cpu, &read)?;
                    (given, FfnTape::Experts(tape))
                }
            };
            multiply(cpu, &mut given, self.multipliers.ffn);
            self.add(cpu, &mut unscaled, self.post_ffn_norm.as_ref(), &given);
            of_ffn = Some((read, tape, given));
        }
        let mut out = unscaled.clone();
        multiply(cpu, &mut out, self.scale.unwrap_or(1.0));
        Ok((out, LayerTape { mixer, middle, ffn: of_ffn, unscaled }))
    }

    /// Adds what a part gives to the stream.
    fn add(&self, cpu: &Cpu, stream: &mut [f32], norm: Option<&Norm>, given: &[f32]) {
        let mut added = normed(cpu, norm, given);
        multiply(cpu, &mut added, self.residual_scale);
        add_assign(cpu.isa(), stream, &added);
    }

    /// From the gradient at what leaves the layer to that at what enters it, `x`.
    pub fn backward(
        &mut self,
        sink: &mut Sink<'_>,
        x: &[f32],
        tape: &LayerTape,
        mut given: Vec<f32>,
    ) -> Result<Vec<f32>> {
        let cpu = sink.cpu;
        if let Some(factor) = self.scale {
            let along = given.iter().zip(&tape.unscaled).map(|(a, b)| f64::from(*a) * f64::from(*b));
            sink.add_vector(TensorKind::LayerScale, 0, 1, &[along.sum()])?;
            multiply(cpu, &mut given, factor);
        }
        // Gradients at the stream as it enters, in the middle, and at what attention reads.
        let (mut at_x, mut at_middle) = (vec![0.0; x.len()], given.clone());
        let mut at_read = vec![0.0; x.len()];
        if let (Some(ffn), Some((read, of_ffn, out))) = (&mut self.ffn, &tape.ffn) {
            let factors = [self.residual_scale, self.multipliers.ffn];
            let at_out = back_through(sink, self.post_ffn_norm.as_ref(), out, given, factors)?;
            let mut at_ffn = vec![0.0; read.len()];
            match (ffn, of_ffn) {
                (Ffn::Dense(mlp), FfnTape::Dense(tape)) => {
                    mlp.backward(sink, read, tape, &at_out, &mut at_ffn)?;
                }
                (Ffn::Experts(mixture), FfnTape::Experts(tape)) => {
                    mixture.backward(sink, read, tape, &at_out, &mut at_ffn)?;
                }
                _ => unreachable!("the tape is that of this layer"),
            }
            match (self.residual, &tape.mixer) {
                (Residual::ParallelOneNorm, Some(_)) => at_read = at_ffn,
                (Residual::Parallel, _) => {
                    back_to_stream(sink, self.ffn_norm.as_ref(), x, &at_ffn, &mut at_x)?;
                }
                _ => {
                    back_to_stream(sink, self.ffn_norm.as_ref(), &tape.middle, &at_ffn, &mut at_middle)?;
                }
            }
        }
        add_assign(cpu.isa(), &mut at_x, &at_middle);
        if let (Some(attention), Some(MixerTape { read, tape, given: out })) =
            (&mut self.attention, &tape.mixer)
        {
            let factors = [self.residual_scale, self.multipliers.attention];
            let at_out = back_through(sink, self.post_attn_norm.as_ref(), out, at_middle, factors)?;
            attention.backward(sink, read, tape, &at_out, &mut at_read)?;
            back_to_stream(sink, self.attn_norm.as_ref(), x, &at_read, &mut at_x)?;
        }
        Ok(at_x)
    }
}

/// From the gradient at what was added to the stream to that at what a part gave.
fn back_through(
    sink: &mut Sink<'_>,
    norm: Option<&Norm>,
    out: &[f32],
    mut given: Vec<f32>,
    [added, part]: [f32; 2],
) -> Result<Vec<f32>> {
    multiply(sink.cpu, &mut given, added);
    if let Some(norm) = norm {
        let mut before = vec![0.0; out.len()];
        norm.backward(sink, out, &given, &mut before)?;
        given = before;
    }
    multiply(sink.cpu, &mut given, part);
    Ok(given)
}

/// Adds the gradient at the stream, from that at what a part read of it.
fn back_to_stream(
    sink: &mut Sink<'_>,
    norm: Option<&Norm>,
    stream: &[f32],
    given: &[f32],
    into: &mut [f32],
) -> Result<()> {
    match norm {
        Some(norm) => norm.backward(sink, stream, given, into),
        None => {
            add_assign(sink.cpu.isa(), into, given);
            Ok(())
        }
    }
}

fn normed(cpu: &Cpu, norm: Option<&Norm>, x: &[f32]) -> Vec<f32> {
    norm.map_or_else(|| x.to_vec(), |norm| norm.forward(cpu, x))
}

fn multiply(cpu: &Cpu, values: &mut [f32], factor: f32) {
    if factor != 1.0 {
        scale(cpu.isa(), values, factor);
    }
}
