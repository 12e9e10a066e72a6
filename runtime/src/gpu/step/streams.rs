//! Residual streams beside each other: `hidden` is the first, which goes through the layers. A layer begins with what it predicts of all of
//! them, and ends with what its own result corrects. Beside attention, a residual of low rank may be added.

use std::sync::Arc;

use qsf_format::NormKind;
use wgpu::Buffer;

use super::command::padded;
use super::layers::Adding;
use super::multiply::Way;
use super::recorder::{Recorder, RowPart};
use crate::gpu::kernels::Kernel;
use crate::gpu::streams::{GpuLaurel, GpuStreamEnds, GpuStreams};
use crate::gpu::wgsl::norm::Added;
use crate::gpu::wgsl::streams::{StreamStep, Streams};

/// What a step takes beside the streams.
#[derive(Clone, Copy, Default)]
struct Of<'a> {
    stream: usize,
    /// What a layer does to streams, and the matrix of it that is used.
    layer: Option<(&'a GpuStreams, u32)>,
}

impl Recorder<'_> {
    /// Makes all streams of the first.
    pub(super) fn begin_streams(&mut self, tokens: usize, ends: &GpuStreamEnds) {
        let (hidden, others) = (self.model.config.hidden as usize, self.others());
        let buffers = &self.state.buffers;
        // A copy in rows that matrices read.
        self.add_and_norm(tokens, Adding::NOTHING, None);
        let way = Way {
            input: &buffers.normed,
            input_stride: padded(hidden),
            output: &buffers.streams.others,
            output_stride: others * hidden,
            first: 0,
        };
        self.linear(&ends.projection, tokens, &way);
        self.streams(StreamStep::Rescale, (tokens, others), Of::default(), &buffers.projected);
    }

    /// Streams become what the layer predicts of them, and `normed` the first of these normalized with the gains at `next`.
    pub(super) fn predict_streams(&mut self, tokens: usize, layer: &GpuStreams, next: Option<u32>) {
        let of = Of { layer: Some((layer, layer.prediction)), ..Of::default() };
        self.streams(StreamStep::Predict, (tokens, 1), of, &self.state.buffers.projected);
        self.add_and_norm(tokens, Adding::NOTHING, next);
    }

    /// Corrects what was predicted by what the layer has made of the first stream. `normed` becomes that, times a gain.
    pub(super) fn correct_streams(&mut self, tokens: usize, layer: &GpuStreams) {
        let of = Of { layer: Some((layer, layer.correction)), ..Of::default() };
        self.streams(StreamStep::Correct, (tokens, 1), of, &self.state.buffers.projected);
    }

    /// Adds what is in `projected`, normalized with the gains at `norm`, to all streams but the first.
    pub(super) fn add_to_other_streams(&mut self, tokens: usize, norm: u32) {
        let projected = &self.state.buffers.projected;
        self.norm_hidden(tokens, projected, norm);
        self.streams(StreamStep::AddToOthers, (tokens, self.others()), Of::default(), projected);
    }

    /// The first stream becomes the mean of what comes back of all.
    pub(super) fn end_streams(&mut self, tokens: usize, ends: &GpuStreamEnds) {
        let buffers = &self.state.buffers;
        let hidden = self.model.config.hidden as usize;
        for (stream, back) in ends.returns.iter().enumerate() {
            let of = Of { stream, ..Of::default() };
            self.streams(StreamStep::Take, (tokens, 1), of, &buffers.projected);
            let way = Way {
                input: &buffers.normed,
                input_stride: padded(hidden),
                output: &buffers.streams.predicted,
                output_stride: (self.others() + 1) * hidden,
                first: stream * hidden,
            };
            self.linear_of_any_size(back, tokens, &way);
        }
        self.streams(StreamStep::Mean, (tokens, 1), Of::default(), &buffers.projected);
    }

    /// What is added beside attention, of what attention reads, which is in `normed`.
    pub(super) fn laurel(&mut self, tokens: usize, laurel: &GpuLaurel) {
        let buffers = &self.state.buffers;
        let (hidden, rank) = (self.model.config.hidden as usize, laurel.down.rows() as usize);
        let narrow = buffers.streams.narrow.of(rank);
        let way = Way {
            input: &buffers.normed,
            input_stride: padded(hidden),
            output: narrow,
            output_stride: padded(rank),
            first: 0,
        };
        self.linear(&laurel.down, tokens, &way);
        let way = Way {
            input: narrow,
            input_stride: padded(rank),
            output: &buffers.streams.laurel,
            output_stride: hidden,
            first: 0,
        };
        self.linear(&laurel.up, tokens, &way);
        self.norm_hidden(tokens, &buffers.streams.laurel, laurel.norm);
        self.streams(StreamStep::AddRead, (tokens, 1), Of::default(), &buffers.streams.laurel);
    }

    /// Adds that to the residual stream, behind attention.
    pub(super) fn add_laurel(&mut self, tokens: usize, next: Option<u32>) {
        let adding =
            Adding { added: Added::Plain, scale: std::f32::consts::FRAC_1_SQRT_2, ..Adding::NOTHING };
        let buffers = &self.state.buffers;
        self.add_rows_and_norm(tokens, adding, (&buffers.streams.laurel, 1.0), next, &buffers.normed);
    }

    /// A norm of rows as wide as the residual stream.
    fn norm_hidden(&mut self, tokens: usize, rows: &Arc<Buffer>, gains: u32) {
        let width = self.model.config.hidden as usize;
        let part = RowPart { width, stride: width, first: 0 };
        self.norm_in_place(tokens, NormKind::RmsNorm, rows, part, gains);
    }

    /// Streams beside the first.
    fn others(&self) -> usize {
        self.model.config.streams.map_or(0, |streams| streams as usize - 1)
    }

    fn streams(
        &mut self,
        step: StreamStep,
        (tokens, groups): (usize, usize),
        of: Of<'_>,
        projected: &Arc<Buffer>,
    ) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let of_streams = &buffers.streams;
        let kernel = Streams { step, count: self.others() + 1 };
        let (gains, router, weights, scale) = of
            .layer
            .map_or((0, 0, 0, 0), |(layer, weights)| (layer.router_norm, layer.router, weights, layer.scale));
        self.push(
            Kernel::Streams(kernel),
            &[
                &buffers.hidden,
                &of_streams.others,
                &of_streams.predicted,
                &buffers.normed,
                projected,
                &self.model.vectors,
            ],
            &[
                config.hidden,
                padded(config.hidden as usize) as u32,
                of.stream as u32,
                gains,
                router,
                weights,
                scale,
                config.norm.epsilon.to_bits(),
            ],
            (tokens as u32, groups as u32, 1),
        );
    }
}
