//! The feed-forward of one layer: one for all tokens, or a mixture of experts (`experts`).

use std::ops::ControlFlow;

use super::activations::CodedRows;
use super::{Decoder, DecoderState, InputObserver, LinearInput, Profile, Section};
use crate::error::Result;
use crate::linear::{Adapted, Products as _};
use crate::weights::{FeedForward, Mlp};
use qsf_cpu::{activate, cut_off, gated};

/// What an activation costs, in multiply-adds of matrices.
const WORK: usize = 32;

impl Decoder {
    /// What the feed-forward of a layer adds for the rows in `state.normed`, into `state.projected`.
    pub(super) fn feed_forward(
        &self,
        state: &mut DecoderState,
        ffn: &FeedForward,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        if observer.observe(LinearInput::Ffn, self.model.config.hidden as usize, &state.normed).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        match ffn {
            FeedForward::Dense(mlp) => {
                let DecoderState { normed, gate, up, projected, coded, profile, .. } = state;
                // Experts of other layers may be wider.
                let rows = normed.len() / self.model.config.hidden as usize;
                let width = rows * mlp.up.weight.rows();
                let gate = if mlp.gate.is_some() { &mut gate[..width] } else { &mut [] };
                let inner = self.inner(mlp, normed, gate, &mut up[..width], coded, profile)?;
                if let Some(norm) = &mlp.norm {
                    self.norm_rows(norm, inner);
                    profile.lap(Section::Elementwise);
                }
                if observer.observe(LinearInput::FfnDown, mlp.down.weight.cols(), inner).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                self.linears(&[&mlp.down], inner, coded, &mut [projected])?;
            }
            FeedForward::Experts(mixture) => return self.mixture(state, mixture, observer),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What the down projection is multiplied with; in one of the two buffers, which have as many rows as `input`.
    pub(super) fn inner<'a>(
        &self,
        mlp: &Mlp,
        input: &[f32],
        gate: &'a mut [f32],
        up: &'a mut [f32],
        coded: &mut CodedRows,
        profile: &mut Profile,
    ) -> Result<&'a mut [f32]> {
        let (isa, function) = (self.cpu.isa(), mlp.function);
        let width = mlp.up.weight.rows();
        let inner = if let Some(linear) = &mlp.gate {
            let pair = [linear, &mlp.up];
            // A factor comes before the function.
            let factor = self.multipliers().ffn_gate;
            let at_once = factor == 1.0 && mlp.cutoff.is_none();
            if let [Some(a), Some(b)] = pair.map(|linear| linear.resident().filter(|_| at_once)) {
                let mut latents = std::mem::take(&mut coded.latents);
                let (began, tokens) = (coded.times.begin(), input.len() / mlp.up.weight.cols());
                let blocks = pair.iter().any(|linear| linear.weight.has_blocks());
                let input = coded.input(&self.cpu, self.activations, input, mlp.up.weight.cols(), blocks);
                let adapters = pair.map(|linear| linear.low_rank.as_deref());
                let adapted = Adapted::new(adapters, &input, &mut latents);
                self.cpu.gated_linear(function, [a, b], &adapted, &input, gate);
                coded.times.end(began, pair.iter().map(|linear| &linear.weight), tokens);
                coded.latents = latents;
                profile.lap(Section::Matmul);
                return Ok(gate);
            }
            self.linears(&pair, input, coded, &mut [gate, up])?;
            self.multiply_rows(gate, width, factor);
            profile.lap(Section::Matmul);
            self.cpu.for_each_rows([(&mut *gate, width)], WORK * width, |first, [gate]| {
                if let Some(deviations) = mlp.cutoff {
                    gate.chunks_exact_mut(width).for_each(|gate| cut_off(isa, gate, deviations));
                }
                gated(isa, function, gate, &up[first * width..][..gate.len()]);
            });
            gate
        } else {
            self.linears(&[&mlp.up], input, coded, &mut [up])?;
            profile.lap(Section::Matmul);
            self.cpu.for_each_rows([(&mut *up, width)], WORK * width, |_, [up]| {
                activate(isa, function, up);
            });
            up
        };
        profile.lap(Section::Elementwise);
        Ok(inner)
    }
}
