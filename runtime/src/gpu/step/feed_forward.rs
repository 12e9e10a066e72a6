//! The feed-forward of a layer: one for all tokens, or some of many experts for each.

use qsf_format::NormKind;

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
        let GpuMlp { gated, inner, norm, cutoff, xielu, down } = mlp;
        let (hidden, ffn) = (config.hidden as usize, down.matrix.cols as usize);
        let (input, input_stride) = (&buffers.normed, padded(hidden));
        let (activated, stride) = (buffers.activated.of(ffn), padded(ffn));
        let factor = config.multipliers.map_or(1.0, |multipliers| multipliers.ffn_gate);
        if let [both] = &inner[..]
            && *gated
            && both.matrix.outliers.is_none()
            && both.updates.is_empty()
            && factor == 1.0
            && cutoff.is_none()
            && !self.on_matrix_units(tokens)
        {
            let way = Way { input, input_stride, output: activated, output_stride: stride, first: 0 };
            self.by_few(both, 0, tokens, Output::Gated(config.activation), &way);
        } else {
            let row = if *gated { 2 * ffn } else { ffn };
            let mut way = Way { input, input_stride, output: &buffers.inner, output_stride: row, first: 0 };
            for linear in inner {
                self.linear(linear, tokens, &way);
                way.first += linear.matrix.rows as usize;
            }
            if let Some(deviations) = cutoff {
                let job = [ffn as u32, row as u32, deviations.to_bits()];
                self.push(Kernel::CutOff, &[&buffers.inner], &job, (tokens as u32, 1, 1));
            }
            let [above, below] = xielu.map(f32::to_bits);
            self.push(
                Kernel::Activate(config.activation, *gated),
                &[&buffers.inner, activated],
                &[ffn as u32, stride as u32, factor.to_bits(), above, below],
                (ffn.div_ceil(pointwise::THREADS) as u32, tokens as u32, 1),
            );
        }
        if let Some(gain) = norm {
            let part = RowPart { width: ffn, stride, first: 0 };
            self.norm_in_place(tokens, NormKind::RmsNorm, activated, part, *gain);
        }
        let way = Way {
            input: activated,
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
