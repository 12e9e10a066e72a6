//! The feed-forward of a layer: one for all tokens, or some of many experts for each.

use super::command::padded;
use super::multiply::Way;
use super::recorder::{Recorder, RowPart};
use crate::gpu::kernels::Kernel;
use crate::gpu::model::{GpuExperts, GpuFeedForward, GpuMlp};
use crate::gpu::wgsl::mat_vec::{Inputs, Output};
use crate::gpu::wgsl::{pointwise, route};

impl Recorder<'_> {
    /// What the feed-forward of a layer adds.
    pub(super) fn feed_forward(&mut self, tokens: usize, ffn: &GpuFeedForward) {
        match ffn {
            GpuFeedForward::Dense(mlp) => self.mlp(tokens, mlp),
            GpuFeedForward::Experts(experts) => self.experts(tokens, experts),
        }
    }

    fn mlp(&mut self, tokens: usize, mlp: &GpuMlp) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let (hidden, ffn) = (config.hidden as usize, config.ffn as usize);
        let (input, input_stride) = (&buffers.normed, padded(hidden));
        let GpuMlp { gated, inner, down } = mlp;
        let stride = padded(ffn);
        if let [both] = &inner[..]
            && *gated
            && both.matrix.outliers.is_none()
            && both.updates.is_empty()
            && !self.on_matrix_units(tokens)
            && self.multipliers().ffn_gate == 1.0
        {
            let way =
                Way { input, input_stride, output: &buffers.activated, output_stride: stride, first: 0 };
            self.by_few(both, 0, tokens, Output::Gated(config.activation), &way);
        } else {
            let row = if *gated { 2 * ffn } else { ffn };
            let mut way = Way { input, input_stride, output: &buffers.inner, output_stride: row, first: 0 };
            for linear in inner {
                self.linear(linear, tokens, &way);
                way.first += linear.matrix.rows as usize;
            }
            if *gated {
                let part = RowPart { width: ffn, stride: row, first: 0 };
                self.scale(tokens, &buffers.inner, part, self.multipliers().ffn_gate);
            }
            self.push(
                Kernel::Activate(config.activation, *gated),
                &[&buffers.inner, &buffers.activated],
                &[ffn as u32, stride as u32],
                (ffn.div_ceil(pointwise::THREADS) as u32, tokens as u32, 1),
            );
        }
        let way = Way {
            input: &buffers.activated,
            input_stride: stride,
            output: &buffers.projected,
            output_stride: hidden,
            first: 0,
        };
        self.linear(down, tokens, &way);
    }

    /// Each token's experts read their weights for it alone, which suits single tokens.
    fn experts(&mut self, tokens: usize, experts: &GpuExperts) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let Some(mixture) = &config.experts else { return };
        let hidden = config.hidden as usize;
        let (input, input_stride) = (&buffers.normed, padded(hidden));
        let count = mixture.count as usize;
        let way = Way { input, input_stride, output: &buffers.routed, output_stride: count, first: 0 };
        self.linear(&experts.router, tokens, &way);
        self.push(
            Kernel::Route(mixture.normalize_weights),
            &[&buffers.routed, &buffers.chosen],
            &[mixture.count, mixture.used],
            (tokens as u32, 1, 1),
        );
        let choices = tokens * mixture.used as usize;
        let stride = padded(mixture.ffn as usize);
        let way =
            Way { input, input_stride, output: &buffers.expert_activated, output_stride: stride, first: 0 };
        let words = experts.inner_words;
        self.chosen(&experts.inner, words, choices, Inputs::OfToken, Output::Gated(config.activation), &way);
        let way = Way {
            input: &buffers.expert_activated,
            input_stride: stride,
            output: &buffers.made,
            output_stride: hidden,
            first: 0,
        };
        self.chosen(&experts.down, experts.down_words, choices, Inputs::OfChoice, Output::Store, &way);
        self.push(
            Kernel::Gather,
            &[&buffers.made, &buffers.projected, &buffers.chosen],
            &[config.hidden, mixture.used],
            (hidden.div_ceil(route::THREADS) as u32, tokens as u32, 1),
        );
    }
}
