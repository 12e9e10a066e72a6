//! A mixture of experts: the router, the experts that tokens chose, and what all tokens go through besides.

use std::sync::Arc;

use qsf_format::Experts;
use wgpu::Buffer;

use super::command::{MANY, TILE, padded};
use super::layers::Adding;
use super::multiply::{Choices, Way};
use super::recorder::{Recorder, RowPart};
use crate::gpu::experts::{GpuExperts, GpuInner, GpuShared};
use crate::gpu::kernels::Kernel;
use crate::gpu::wgsl::experts::{self, MOST_TILED, most_tiles};
use crate::gpu::wgsl::mat_vec::{Inputs, Output};
use crate::gpu::wgsl::pointwise;
use crate::gpu::wgsl::route::Route;

impl Recorder<'_> {
    /// What a mixture of experts adds.
    pub(super) fn mixture(&mut self, tokens: usize, experts: &GpuExperts) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let Some(mixture) = &config.experts else { return };
        let (hidden, count) = (config.hidden as usize, mixture.count as usize);
        let mut input = &buffers.normed;
        if let Some(beside) = &experts.beside {
            self.norm_of_stream(tokens, beside.router_norm, &buffers.own);
            input = &buffers.own;
        }
        let input_stride = padded(hidden);
        let way = Way { input, input_stride, output: &buffers.routed, output_stride: count, first: 0 };
        self.linear(&experts.router, tokens, &way);
        let (route, job) = Route::of(mixture, experts.choice_bias, experts.factors);
        let routing = [&buffers.routed, &buffers.chosen, &self.model.vectors];
        self.push(Kernel::Route(route), &routing, &job, (tokens as u32, 1, 1));
        if let Some(beside) = &experts.beside {
            self.norm_of_stream(tokens, beside.expert_norm, &buffers.own);
        }
        self.chosen_experts(tokens, mixture, experts, input);
        let part = RowPart { width: hidden, stride: hidden, first: 0 };
        if let Some(beside) = &experts.beside {
            self.norm_in_place(tokens, config.norm.kind, &buffers.projected, part, beside.post_expert_norm);
        }
        if let Some(shared) = &experts.shared {
            self.shared(tokens, shared, experts.beside.as_ref().map(|beside| beside.post_side_norm));
        }
    }

    /// What the chosen experts of each token make of `input` together.
    fn chosen_experts(
        &mut self,
        tokens: usize,
        mixture: &Experts,
        experts: &GpuExperts,
        input: &Arc<Buffer>,
    ) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let (hidden, width) = (config.hidden as usize, mixture.ffn as usize);
        let count = tokens * mixture.used as usize;
        let mut read = Choices { count, inputs: Inputs::OfToken, tiles: self.tiles(tokens, mixture) };
        let (mut input, input_stride, stride) = (input, padded(hidden), padded(width));
        let parts = |width: usize, threads: usize| (width.div_ceil(threads) as u32, count as u32, 1);
        if mixture.weigh_inputs {
            self.push(
                Kernel::Weigh,
                &[input, &buffers.weighed, &buffers.chosen],
                &[config.hidden, input_stride as u32, mixture.used],
                parts(hidden, experts::THREADS),
            );
            (input, read.inputs) = (&buffers.weighed, Inputs::OfChoice);
        }
        match &experts.inner {
            GpuInner::Joined(both) => {
                let output = &buffers.expert_activated;
                let way = Way { input, input_stride, output, output_stride: stride, first: 0 };
                self.chosen(both, read, Output::Gated(experts.function), &way);
            }
            GpuInner::Apart(gate, up) => {
                let gated = gate.is_some();
                let (output, row) = (&buffers.expert_inner, if gated { 2 * width } else { width });
                let mut way = Way { input, input_stride, output, output_stride: row, first: 0 };
                for stack in gate.iter().chain([up]) {
                    self.chosen(stack, read, Output::Store, &way);
                    way.first += width;
                }
                self.push(
                    Kernel::Activate(experts.function, gated),
                    &[&buffers.expert_inner, &buffers.expert_activated],
                    &[width as u32, stride as u32, 1f32.to_bits(), 0, 0],
                    parts(width, pointwise::THREADS),
                );
            }
        }
        let way = Way {
            input: &buffers.expert_activated,
            input_stride: stride,
            output: &buffers.made,
            output_stride: hidden,
            first: 0,
        };
        self.chosen(&experts.down, Choices { inputs: Inputs::OfChoice, ..read }, Output::Store, &way);
        self.push(
            Kernel::Gather(!mixture.weigh_inputs),
            &[&buffers.made, &buffers.projected, &buffers.chosen],
            &[config.hidden, mixture.used],
            (hidden.div_ceil(experts::THREADS) as u32, tokens as u32, 1),
        );
    }

    /// Brings choices of the same expert together in steps of many tokens; how many tiles there may be.
    fn tiles(&mut self, tokens: usize, mixture: &Experts) -> Option<usize> {
        let (experts, choices) = (mixture.count as usize, tokens * mixture.used as usize);
        if tokens < MANY || experts > MOST_TILED {
            return None;
        }
        let (most, buffers) = (most_tiles(choices, experts, TILE), &self.state.buffers);
        let job = [choices, most].map(|number| number as u32);
        self.push(Kernel::Tiles(experts, TILE), &[&buffers.chosen, &buffers.tiles], &job, (1, 1, 1));
        Some(most)
    }

    /// Adds what all tokens go through, normalized with the gains at `norm` where they are given.
    fn shared(&mut self, tokens: usize, shared: &GpuShared, norm: Option<u32>) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let hidden = config.hidden as usize;
        // What experts made has been added up.
        let made = &buffers.made;
        self.mlp(tokens, &shared.mlp, &buffers.shared_activated, made);
        if let Some(norm) = norm {
            let part = RowPart { width: hidden, stride: hidden, first: 0 };
            self.norm_in_place(tokens, config.norm.kind, made, part, norm);
        }
        let mut bound = vec![made, &buffers.projected];
        if let Some(router) = &shared.router {
            let (input, output) = (&buffers.normed, &buffers.routed);
            let way = Way { input, input_stride: padded(hidden), output, output_stride: 1, first: 0 };
            self.linear(router, tokens, &way);
            bound.push(output);
        }
        let groups = (hidden.div_ceil(experts::THREADS) as u32, tokens as u32, 1);
        self.push(Kernel::AddShared(shared.router.is_some()), &bound, &[config.hidden], groups);
    }

    /// The residual stream, normalized with the gains at `gains`, to `to`.
    fn norm_of_stream(&mut self, tokens: usize, gains: u32, to: &Arc<Buffer>) {
        let nothing = (&self.state.buffers.projected, 1.0);
        self.add_rows_and_norm(tokens, Adding::NOTHING, nothing, Some(gains), to);
    }
}
