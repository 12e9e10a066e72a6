//! The feed-forward of a layer: one for all tokens, or some of many experts for each (`experts`).

use std::sync::Arc;

use qsf_format::{Activation, NormKind};
use wgpu::Buffer;

use super::command::padded;
use super::multiply::Way;
use super::recorder::{Recorder, RowPart};
use crate::gpu::kernels::Kernel;
use crate::gpu::mlp::GpuMlp;
use crate::gpu::model::GpuFeedForward;
use crate::gpu::wgsl::activation::Function;
use crate::gpu::wgsl::mat_vec::Output;
use crate::gpu::wgsl::pointwise;

impl Recorder<'_> {
    /// What the feed-forward of a layer adds.
    pub(super) fn feed_forward(&mut self, tokens: usize, ffn: &GpuFeedForward) {
        match ffn {
            GpuFeedForward::Dense(mlp) => {
                let buffers = &self.state.buffers;
                self.mlp(tokens, mlp, buffers.activated.of(mlp.width), &buffers.projected);
            }
            GpuFeedForward::Experts(experts) => self.mixture(tokens, experts),
        }
    }

    /// What a feed-forward makes of `normed`, by way of `activated`, behind whose rows of its width are zeros.
    pub(super) fn mlp(&mut self, tokens: usize, mlp: &GpuMlp, activated: &Arc<Buffer>, made: &Arc<Buffer>) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let hidden = config.hidden as usize;
        let (input, input_stride) = (&buffers.normed, padded(hidden));
        let GpuMlp { gated, function, width, inner, norm, cutoff, xielu, down } = mlp;
        let (width, stride) = (*width, padded(*width));
        let factor = config.multipliers.map_or(1.0, |multipliers| multipliers.ffn_gate);
        if let [both] = &inner[..]
            && *gated
            && both.below.is_empty()
            && both.matrix.outliers.is_none()
            && both.updates.is_empty()
            && factor == 1.0
            && cutoff.is_none()
            && !self.on_matrix_units(tokens)
        {
            let way = Way { input, input_stride, output: activated, output_stride: stride, first: 0 };
            self.by_few((&both.matrix, both.bias), 0, tokens, Output::Gated(*function), &way);
        } else {
            let row = if *gated { 2 * width } else { width };
            let mut way = Way { input, input_stride, output: &buffers.inner, output_stride: row, first: 0 };
            for linear in inner {
                self.linear(linear, tokens, &way);
                way.first += linear.rows() as usize;
            }
            if let Some(deviations) = cutoff {
                let job = [width as u32, row as u32, deviations.to_bits()];
                self.push(Kernel::CutOff, &[&buffers.inner], &job, (tokens as u32, 1, 1));
            }
            let [above, below] = xielu.map(f32::to_bits);
            self.push(
                Kernel::Activate(*function, *gated),
                &[&buffers.inner, activated],
                &[width as u32, stride as u32, factor.to_bits(), above, below],
                (width.div_ceil(pointwise::THREADS) as u32, tokens as u32, 1),
            );
        }
        if let Some(gain) = norm {
            let part = RowPart { width, stride, first: 0 };
            self.norm_in_place(tokens, NormKind::RmsNorm, activated, part, *gain);
        }
        let way =
            Way { input: activated, input_stride: stride, output: made, output_stride: hidden, first: 0 };
        match function {
            _ if norm.is_some() => self.linear(down, tokens, &way),
            // Squares, nearly always larger than others.
            Function::Named(Activation::Relu2 | Activation::Xielu) => {
                self.linear_of_any_size(down, tokens, &way);
            }
            // Products of two values, some of them large now and then.
            Function::Named(_) if *gated => self.linear_within_f16(down, tokens, &way),
            _ => self.linear(down, tokens, &way),
        }
    }
}
