//! What adapters add to the matrices of a step.

use super::multiply::Way;
use super::recorder::Recorder;
use crate::gpu::kernels::Kernel;
use crate::gpu::linears::GpuLinear;
use crate::gpu::wgsl::low_rank::{LowRankStep, THREADS};

impl Recorder<'_> {
    /// Adds what adapters have for `linear`, over the input rows from `start` on.
    pub(super) fn add_low_rank(&mut self, linear: &GpuLinear, start: usize, tokens: usize, way: &Way<'_>) {
        let (latent, vectors) = (&self.state.buffers.latent, &self.model.vectors);
        for update in &linear.updates {
            let down = [
                update.inputs,
                way.input_stride as u32,
                (start * way.input_stride) as u32,
                update.rank,
                update.down,
            ];
            let groups = (update.rank, tokens as u32, 1);
            self.push(Kernel::LowRank(LowRankStep::Down), &[way.input, latent, vectors], &down, groups);
            let up = [
                update.rows,
                way.output_stride as u32,
                way.first as u32 + update.first,
                update.rank,
                update.up,
            ];
            let groups = (update.rows.div_ceil(THREADS as u32), tokens as u32, 1);
            self.push(Kernel::LowRank(LowRankStep::Up), &[latent, way.output, vectors], &up, groups);
        }
    }
}
