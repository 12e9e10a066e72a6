//! The recurrent mixer of a layer: project, convolve, mix, project back. All tokens of a step are one dispatch of each kernel.

use std::sync::Arc;

use qsf_format::{Multipliers, NormKind, Recurrent, RecurrentMixer};
use wgpu::Buffer;

use super::command::padded;
use super::multiply::Way;
use super::recorder::{Recorder, RowPart};
use crate::gpu::kernels::Kernel;
use crate::gpu::mixer::{GpuByRanks, GpuRecurrent, GpuSelection};
use crate::gpu::recurrent_state::StepSides;
use crate::gpu::wgsl::convolve::{self, Convolve};
use crate::gpu::wgsl::mixer_gate::{GateNorm, MixerGate};
use crate::gpu::wgsl::pointwise;
use crate::gpu::wgsl::recurrence::{Recurrence, Rule};

/// Values of a part of what is gated and not normalized.
const GATED_PART: usize = 1024;

impl Recorder<'_> {
    /// What the recurrent mixer of layer `index` makes of the normalized rows, into `output`.
    pub(super) fn recurrent(
        &mut self,
        tokens: usize,
        index: usize,
        weights: &GpuRecurrent,
        output: &Arc<Buffer>,
    ) {
        let (model, state) = (self.model, self.state);
        let (Some(recurrent), Some(sides)) = (&model.config.recurrent, state.recurrent.step(index)) else {
            return;
        };
        self.project(tokens, weights);
        self.convolve(tokens, recurrent, weights, sides);
        if let Some(selection) = &weights.selection {
            self.select(tokens, recurrent, selection);
        }
        if !matches!(recurrent.mixer, RecurrentMixer::ShortConv {}) {
            self.recurrence(tokens, recurrent, weights, sides);
            self.gate_mixed(tokens, recurrent, weights);
        }
        let buffers = &state.buffers;
        let way = Way {
            input: &buffers.mixer.mixed,
            input_stride: padded(buffers.mixer.places.mixed),
            output,
            output_stride: model.config.hidden as usize,
            first: 0,
        };
        match weights.norm {
            Some(_) => self.linear(&weights.output, tokens, &way),
            None => self.linear_of_any_size(&weights.output, tokens, &way),
        }
    }

    fn project(&mut self, tokens: usize, weights: &GpuRecurrent) {
        let buffers = &self.state.buffers;
        let mut way = Way {
            input: &buffers.normed,
            input_stride: padded(self.model.config.hidden as usize),
            output: &buffers.mixer.projected,
            output_stride: buffers.mixer.places.row,
            first: 0,
        };
        for linear in &weights.input {
            self.linear(linear, tokens, &way);
            way.first += linear.rows() as usize;
        }
        if let Some(by_ranks) = &weights.by_ranks {
            self.project_by_ranks(tokens, by_ranks);
        }
    }

    /// Gates, steps and rates of replacing, the former by way of a few values.
    fn project_by_ranks(&mut self, tokens: usize, weights: &GpuByRanks) {
        let buffers = &self.state.buffers;
        let mixer = &buffers.mixer;
        let (input_stride, ranks) = (padded(self.model.config.hidden as usize), padded(mixer.places.rank));
        let (input, output, output_stride) = (&buffers.normed, &mixer.projected, mixer.places.row);
        let way = Way { input, input_stride, output, output_stride, first: mixer.places.beta };
        self.linear(&weights.beta, tokens, &way);
        for (down, between, up, first) in [
            (&weights.gate_down, &mixer.gate_ranks, &weights.gate, mixer.places.gate),
            (&weights.step_down, &mixer.ranks, &weights.step, mixer.places.step),
        ] {
            let way = Way { input, input_stride, output: between, output_stride: ranks, first: 0 };
            self.linear(down, tokens, &way);
            let way = Way { input: between, input_stride: ranks, output, output_stride, first };
            self.linear(up, tokens, &way);
        }
    }

    fn convolve(
        &mut self,
        tokens: usize,
        recurrent: &Recurrent,
        weights: &GpuRecurrent,
        sides: StepSides<'_>,
    ) {
        let mixer = &self.state.buffers.mixer;
        let channels = mixer.places.channels;
        let between_gates = matches!(recurrent.mixer, RecurrentMixer::ShortConv {});
        let output = if between_gates { &mixer.mixed } else { &mixer.channels };
        let kernel = Convolve {
            channels,
            taps: recurrent.taps as usize,
            bias: weights.conv_bias.is_some(),
            between_gates,
        };
        self.push(
            Kernel::Convolve(kernel),
            &[&mixer.projected, output, sides.before, sides.behind, &self.model.vectors],
            &[
                tokens as u32,
                mixer.places.row as u32,
                padded(channels) as u32,
                weights.filters,
                weights.conv_bias.unwrap_or(0),
            ],
            (channels.div_ceil(convolve::THREADS) as u32, tokens as u32, 1),
        );
    }

    /// Mamba-1: what is made of what the convolution gives.
    fn select(&mut self, tokens: usize, recurrent: &Recurrent, selection: &GpuSelection) {
        let RecurrentMixer::Mamba1 { state, rank, norm_epsilon, .. } = recurrent.mixer else { return };
        let [state, rank] = [state, rank].map(|n| n as usize);
        let mixer = &self.state.buffers.mixer;
        let (output, row, selected) = (&mixer.projected, mixer.places.row, mixer.places.selected);
        let way = Way {
            input: &mixer.channels,
            input_stride: padded(mixer.places.channels),
            output,
            output_stride: row,
            first: selected,
        };
        self.linear(&selection.select, tokens, &way);
        if let (Some(norms), Some(epsilon)) = (selection.norms, norm_epsilon) {
            let parts = [(0, rank), (rank, state), (rank + state, state)];
            for ((first, width), gains) in parts.into_iter().zip(norms) {
                let part = RowPart { width, stride: row, first: selected + first };
                self.norm_parts(tokens, 1, NormKind::RmsNorm, output, part, (gains, epsilon));
            }
        }
        self.push(
            Kernel::Copy,
            &[output, &mixer.ranks],
            &[rank as u32, row as u32, selected as u32, padded(rank) as u32],
            (rank.div_ceil(pointwise::THREADS) as u32, tokens as u32, 1),
        );
        let way = Way {
            input: &mixer.ranks,
            input_stride: padded(rank),
            output,
            output_stride: row,
            first: mixer.places.step,
        };
        self.linear(&selection.step, tokens, &way);
    }

    fn recurrence(
        &mut self,
        tokens: usize,
        recurrent: &Recurrent,
        weights: &GpuRecurrent,
        sides: StepSides<'_>,
    ) {
        let Some(kernel) = recurrence(recurrent) else { return };
        let mixer = &self.state.buffers.mixer;
        let places = mixer.places;
        // Behind what steps are made of.
        let shared = places.selected + places.rank;
        let job = [
            tokens,
            padded(places.channels),
            places.row,
            padded(places.mixed),
            sides.memory,
            places.step,
            places.beta,
            shared,
        ]
        .map(|number| number as u32);
        let factors = [self.multipliers().mixer_step, recurrent.beta_scale.unwrap_or(1.0)].map(f32::to_bits);
        let job = [&job[..], &[weights.decay, weights.step_bias, weights.skip], &factors].concat();
        self.push(
            Kernel::Recurrence(kernel),
            &[
                &mixer.channels,
                &mixer.projected,
                sides.before,
                sides.behind,
                &mixer.mixed,
                &self.model.vectors,
            ],
            &job,
            (kernel.blocks() as u32, kernel.heads as u32, 1),
        );
    }

    /// Gates what the recurrence gives, and normalizes it where that is so.
    fn gate_mixed(&mut self, tokens: usize, recurrent: &Recurrent, weights: &GpuRecurrent) {
        let (config, mixer) = (&self.model.config, &self.state.buffers.mixer);
        let width = mixer.places.mixed;
        let mut epsilon = config.norm.epsilon;
        let (part, norm, gains_of_part) = match recurrent.mixer {
            RecurrentMixer::GatedDelta { value_dim, .. } => {
                epsilon = recurrent.norm_epsilon.unwrap_or(epsilon);
                (value_dim as usize, GateNorm::Before, 0)
            }
            RecurrentMixer::Mamba2 { groups, .. } if weights.norm.is_some() => {
                let part = width / groups as usize;
                (part, GateNorm::Behind, part)
            }
            _ => (GATED_PART.min(width), GateNorm::None, 0),
        };
        let kernel = MixerGate { width, part, norm, sigmoid: recurrent.channel_rank.is_some() };
        self.push(
            Kernel::MixerGate(kernel),
            &[&mixer.mixed, &mixer.projected, &self.model.vectors],
            &[
                padded(width) as u32,
                mixer.places.row as u32,
                mixer.places.gate as u32,
                weights.norm.unwrap_or(0),
                gains_of_part as u32,
                epsilon.to_bits(),
                self.multipliers().mixer_gate.to_bits(),
            ],
            (kernel.parts() as u32, tokens as u32, 1),
        );
    }

    /// What parts of layers are multiplied with.
    pub(super) fn multipliers(&self) -> Multipliers {
        self.model.config.multipliers.unwrap_or(Multipliers::ONES)
    }
}

/// The kernel of a mixer that has a state beside that of its convolution.
fn recurrence(recurrent: &Recurrent) -> Option<Recurrence> {
    let (rule, [heads, rows, columns, groups]) = match recurrent.mixer {
        RecurrentMixer::GatedDelta { key_heads, key_dim, value_heads, value_dim } => {
            let by_channel = recurrent.channel_rank.is_some();
            (Rule::Delta { by_channel }, [value_heads, value_dim, key_dim, key_heads])
        }
        RecurrentMixer::Mamba2 { heads, head_dim, groups, state } => {
            (Rule::StateSpace, [heads, head_dim, state, groups])
        }
        RecurrentMixer::Mamba1 { width, state, .. } => (Rule::Selective, [1, width, state, 1]),
        RecurrentMixer::ShortConv {} => return None,
    };
    let [heads, rows, columns, groups] = [heads, rows, columns, groups].map(|n| n as usize);
    Some(Recurrence { rule, heads, rows, columns, groups })
}
