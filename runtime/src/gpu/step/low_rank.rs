//! What adapters add to the matrices of a step.

use super::multiply::{Choices, Way};
use super::recorder::Recorder;
use crate::gpu::kernels::Kernel;
use crate::gpu::linears::{GpuLinear, GpuLowRank};
use crate::gpu::wgsl::low_rank::{LowRankStep, THREADS};

impl Recorder<'_> {
    /// Adds what adapters have for `linear`, over the input rows from `start` on.
    pub(super) fn add_low_rank(&mut self, linear: &GpuLinear, start: usize, tokens: usize, way: &Way<'_>) {
        for update in &linear.updates {
            self.add_update(update, start, tokens, None, way);
        }
    }

    /// Adds what adapters have for the experts of some choices.
    pub(super) fn add_update_of_chosen(&mut self, update: &GpuLowRank, choices: Choices, way: &Way<'_>) {
        self.add_update(update, 0, choices.count, Some(choices), way);
    }

    fn add_update(
        &mut self,
        update: &GpuLowRank,
        start: usize,
        rows: usize,
        choices: Option<Choices>,
        way: &Way<'_>,
    ) {
        let (buffers, vectors) = (&self.state.buffers, &self.model.vectors);
        let (latent, inputs) = (&buffers.latent, choices.map(|choices| choices.inputs));
        let down = [
            update.inputs,
            way.input_stride as u32,
            (start * way.input_stride) as u32,
            update.rank,
            update.down,
            self.used(),
        ];
        let mut bound = vec![way.input, latent, vectors];
        bound.extend(inputs.map(|_| &buffers.chosen));
        let groups = (update.rank, rows as u32, 1);
        self.push(Kernel::LowRank(LowRankStep::Down, inputs), &bound, &down, groups);
        let up =
            [update.rows, way.output_stride as u32, way.first as u32 + update.first, update.rank, update.up];
        (bound[0], bound[1]) = (latent, way.output);
        let groups = (update.rows.div_ceil(THREADS as u32), rows as u32, 1);
        self.push(Kernel::LowRank(LowRankStep::Up, inputs), &bound, &up, groups);
    }
}
