//! Parts of layers multiplied by numbers of the configuration.

use std::sync::Arc;

use wgpu::Buffer;

use super::recorder::{Recorder, RowPart};
use crate::gpu::kernels::Kernel;
use crate::gpu::wgsl::pointwise::THREADS;

impl Recorder<'_> {
    /// Multiplies a part of each row of `buffer`, where that changes something.
    pub(super) fn scale(&mut self, tokens: usize, buffer: &Arc<Buffer>, part: RowPart, factor: f32) {
        if factor == 1.0 {
            return;
        }
        let RowPart { width, stride, first } = part;
        let job = [width as u32, stride as u32, first as u32, factor.to_bits(), 0];
        self.push(Kernel::Scale(false), &[buffer], &job, groups(width, tokens));
    }

    /// Multiplies what a part of a layer adds.
    pub(super) fn scale_projected(&mut self, tokens: usize, factor: f32) {
        let width = self.model.config.hidden as usize;
        let part = RowPart { width, stride: width, first: 0 };
        self.scale(tokens, &self.state.buffers.projected, part, factor);
    }

    /// Puts what a mixer gives beside, as attention is to follow it.
    pub(super) fn put_beside(&mut self, tokens: usize) {
        let (width, buffers) = (self.model.config.hidden, &self.state.buffers);
        let job = [width, width, 0, width];
        let bound = [&buffers.projected, &buffers.mixer.beside];
        self.push(Kernel::Copy, &bound, &job, groups(width as usize, tokens));
    }

    /// Adds that to what attention gives, each with a factor.
    pub(super) fn add_beside(&mut self, tokens: usize, factor: f32, of_mixer: f32) {
        let (width, buffers) = (self.model.config.hidden, &self.state.buffers);
        let job = [width, width, 0, factor.to_bits(), of_mixer.to_bits()];
        let bound = [&buffers.projected, &buffers.mixer.beside];
        self.push(Kernel::Scale(true), &bound, &job, groups(width as usize, tokens));
    }
}

/// A thread for each value of a part.
fn groups(width: usize, tokens: usize) -> (u32, u32, u32) {
    (width.div_ceil(THREADS) as u32, tokens as u32, 1)
}
