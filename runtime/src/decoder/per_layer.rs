//! What each layer gets of a token besides the residual stream (MODEL.md section 3.1): made at the beginning for all layers, and
//! used behind the feed-forward of each.

use std::ops::ControlFlow;

use qsf_format::Residual;

use super::per_layer_buffers::PerLayerBuffers;
use super::{Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::weights::{LayerWeights, Norm, PerLayerInputs};
use qsf_cpu::{Function, add_assign, gated, rms_norm_in_place, scale};

/// What scaling, normalizing and adding a value costs, in multiply-adds of matrices.
const WORK: usize = 16;

impl Decoder {
    /// Makes what all layers get of `tokens`, whose embeddings are in `state.hidden`.
    ///
    /// # Errors
    /// When weights cannot be read from disk.
    pub(super) fn per_layer_inputs(&self, state: &mut DecoderState, tokens: &[u32]) -> Result<()> {
        let (Some(of_layers), Some(weights)) = (self.model.config.per_layer_embedding, &self.model.per_layer)
        else {
            return Ok(());
        };
        let PerLayerInputs { embedding, projection, norm } = weights;
        let DecoderState { hidden, per_layer, coded, .. } = state;
        let PerLayerBuffers { inputs, rows, .. } = per_layer;
        self.linears(&[projection], hidden, coded, &mut [inputs])?;
        let (isa, width) = (self.cpu.isa(), of_layers.width as usize);
        let all = self.model.config.layers as usize * width;
        let of_projection = 1.0 / (self.model.config.hidden as f32).sqrt();
        let epsilon = self.model.config.norm.epsilon;
        self.cpu.for_each_rows([(&mut **inputs, all), (rows, all)], WORK * all, |first, [inputs, rows]| {
            let both = inputs.chunks_exact_mut(all).zip(rows.chunks_exact_mut(all));
            for (t, (inputs, row)) in (first..).zip(both) {
                let token = if tokens[t] < of_layers.vocab { tokens[t] } else { 0 };
                embedding.decode_row(isa, token as usize, row);
                scale(isa, row, (width as f32).sqrt());
                scale(isa, inputs, of_projection);
                for input in inputs.chunks_exact_mut(width) {
                    rms_norm_in_place(isa, input, &norm.gain, epsilon);
                }
                add_assign(isa, inputs, row);
                scale(isa, inputs, std::f32::consts::FRAC_1_SQRT_2);
            }
        });
        Ok(())
    }

    /// Adds what layer `index` makes of its input to the residual stream, which is in `state.hidden` and, as it is, in
    /// `state.normed`, and leaves what is read behind the norm `next` there. Of several streams all but the first get it, and
    /// `state.normed` is the first times a gain.
    pub(super) fn add_per_layer(
        &self,
        state: &mut DecoderState,
        index: usize,
        layer: &LayerWeights,
        next: Option<&Norm>,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        let (Some(of_layers), Some(weights)) = (self.model.config.per_layer_embedding, &layer.per_layer)
        else {
            return Ok(ControlFlow::Continue(()));
        };
        let DecoderState { normed, projected, per_layer, coded, .. } = state;
        let PerLayerBuffers { inputs, gate, input, .. } = per_layer;
        let width = of_layers.width as usize;
        if observer.observe(LinearInput::PerLayerGate, weights.gate.weight.cols(), normed).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[&weights.gate], normed, coded, &mut [gate])?;
        let all = self.model.config.layers as usize * width;
        for (input, inputs) in input.chunks_exact_mut(width).zip(inputs.chunks_exact(all)) {
            input.copy_from_slice(&inputs[index * width..][..width]);
        }
        let function: Function = self.model.config.activation.into();
        gated(self.cpu.isa(), function, gate, input);
        if observer.observe(LinearInput::PerLayerUp, width, gate).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[&weights.up], gate, coded, &mut [projected])?;
        state.profile.lap(Section::Matmul);
        match layer.streams {
            Some(_) => self.add_to_other_streams(state, &weights.norm),
            None => self.add_residual(state, Some(&weights.norm), Residual::Sequential, layer.scale, next),
        }
        state.profile.lap(Section::Elementwise);
        Ok(ControlFlow::Continue(()))
    }
}
