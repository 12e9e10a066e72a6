//! What layers get of a token besides the residual stream: made at the beginning for all layers, and used behind the feed-forward of each.

use qsf_format::NormKind;

use super::command::padded;
use super::layers::Adding;
use super::multiply::Way;
use super::recorder::{Recorder, RowPart};
use crate::gpu::kernels::Kernel;
use crate::gpu::per_layer::{GpuPerLayer, GpuPerLayerInputs};
use crate::gpu::wgsl::norm::Added;
use crate::gpu::wgsl::pointwise;
use qsf_format::Residual;

impl Recorder<'_> {
    /// Makes what all layers get of tokens, whose embeddings are the residual stream. Rows of the table are there.
    pub(super) fn per_layer_inputs(&mut self, tokens: usize, inputs: &GpuPerLayerInputs) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let Some(of_layers) = config.per_layer_embedding else { return };
        let (hidden, width) = (config.hidden as usize, of_layers.width as usize);
        let (layers, of_step) = (config.layers as usize, &buffers.per_layer);
        let all = layers * width;
        // A copy in rows that matrices read.
        self.add_and_norm(tokens, Adding::NOTHING, None);
        let way = Way {
            input: &buffers.normed,
            input_stride: padded(hidden),
            output: &of_step.projected,
            output_stride: all,
            first: 0,
        };
        self.linear(&inputs.projection, tokens, &way);
        // What is normalized is first divided by the root of the width, which is as if the epsilon were larger.
        let epsilon = config.norm.epsilon * hidden as f32;
        let part = RowPart { width, stride: all, first: 0 };
        self.norm_parts(tokens, layers, NormKind::RmsNorm, &of_step.projected, part, (inputs.norm, epsilon));
    }

    /// What a layer makes of its input, of the residual stream in `normed`; in `projected`.
    pub(super) fn per_layer(&mut self, tokens: usize, index: usize, weights: &GpuPerLayer) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let Some(of_layers) = config.per_layer_embedding else { return };
        let (hidden, width) = (config.hidden as usize, of_layers.width as usize);
        let of_step = &buffers.per_layer;
        let way = Way {
            input: &buffers.normed,
            input_stride: padded(hidden),
            output: &of_step.gate,
            output_stride: width,
            first: 0,
        };
        // It reads the residual stream itself.
        self.linear_of_any_size(&weights.gate, tokens, &way);
        let (stride, input) = (padded(width), of_step.input.of(width));
        let all = config.layers * of_layers.width;
        self.push(
            Kernel::PerLayer(config.activation),
            &[&of_step.gate, &of_step.projected, &of_step.rows, input],
            &[width as u32, stride as u32, all, (index * width) as u32],
            (width.div_ceil(pointwise::THREADS) as u32, tokens as u32, 1),
        );
        let way =
            Way { input, input_stride: stride, output: &buffers.projected, output_stride: hidden, first: 0 };
        self.linear(&weights.up, tokens, &way);
    }

    /// Adds that to the residual stream, which is then multiplied with `scale`.
    pub(super) fn add_per_layer(
        &mut self,
        tokens: usize,
        weights: &GpuPerLayer,
        scale: Option<f32>,
        next: Option<u32>,
    ) {
        let adding = Adding {
            added: Added::Normalized,
            norm: weights.norm,
            residual: Residual::Sequential,
            given: 1.0,
            scale: scale.unwrap_or(1.0),
        };
        self.add_and_norm(tokens, adding, next);
    }
}
