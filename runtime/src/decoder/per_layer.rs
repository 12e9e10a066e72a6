//! What each layer gets of a token besides the residual stream (MODEL.md section 3.1): made at the beginning for all layers, and
//! used behind the feed-forward of each.

use std::ops::ControlFlow;

use qsf_format::{ModelConfig, Residual};

use super::{Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::weights::{LayerWeights, Norm, PerLayerInputs};
use qsf_cpu::{AlignedFloats, Function, add_assign, gated, rms_norm_in_place, scale};

/// What scaling, normalizing and adding a value costs, in multiply-adds of matrices.
const WORK: usize = 16;

/// Values of a token in each of the [`PerLayerBuffers`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PerLayerWidths {
    all: usize,
    one: usize,
}

impl PerLayerWidths {
    /// Those of a model; zeros where layers get nothing.
    pub fn of(config: &ModelConfig) -> PerLayerWidths {
        let one = config.per_layer_embedding.map_or(0, |of_layers| of_layers.width) as usize;
        PerLayerWidths { all: config.layers as usize * one, one }
    }

    /// All together.
    pub fn floats_per_token(&self) -> usize {
        2 * self.all + 2 * self.one
    }
}

/// Empty for models whose layers get nothing.
pub(super) struct PerLayerBuffers {
    /// Tokens x layers x width.
    inputs: AlignedFloats,
    /// Alike, rows of the table.
    rows: AlignedFloats,
    /// Of one layer.
    gate: AlignedFloats,
    input: AlignedFloats,
}

impl PerLayerBuffers {
    /// Room for `batch` tokens.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(widths: PerLayerWidths, batch: usize) -> Result<PerLayerBuffers> {
        let buffer = |width: usize| AlignedFloats::zeros(batch * width, "inputs of layers");
        Ok(PerLayerBuffers {
            inputs: buffer(widths.all)?,
            rows: buffer(widths.all)?,
            gate: buffer(widths.one)?,
            input: buffer(widths.one)?,
        })
    }

    /// Sizes them for a step of `tokens`.
    pub fn resize(&mut self, widths: PerLayerWidths, tokens: usize) {
        self.inputs.resize(tokens * widths.all);
        self.rows.resize(tokens * widths.all);
        self.gate.resize(tokens * widths.one);
        self.input.resize(tokens * widths.one);
    }
}

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
    /// `state.normed`, and leaves what is read behind the norm `next` there.
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
        self.add_residual(state, Some(&weights.norm), Residual::Sequential, layer.scale, next);
        state.profile.lap(Section::Elementwise);
        Ok(ControlFlow::Continue(()))
    }
}
