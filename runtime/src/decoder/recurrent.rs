//! Layers that carry a state from token to token: project, convolve, mix, project back. The tokens of a step follow one another
//! in the state whatever steps they come in, so that results do not depend on these.

use std::ops::ControlFlow;

use qsf_format::{Multipliers, Recurrent, RecurrentMixer};

use super::mixer_buffers::{MixerBuffers, MixerRows};
use super::recurrent_state::RecurrentState;
use super::{Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::weights::{Linear, RecurrentWeights};
use qsf_cpu::{
    Function, GatedDelta, ShortConv, StateSpace, decays, gated, keep_last, multiply, positive_steps, rates,
    rms_norm_in_place, scale, scale_to_length, sigmoid_gated,
};

/// What an elementary function, or a norm, of a value costs, in multiply-adds of matrices.
const WORK: usize = 32;

impl Decoder {
    /// What the recurrent mixer of layer `index` adds for the normalized rows in `state.normed`, into `state.projected`.
    pub(super) fn recurrent(
        &self,
        state: &mut DecoderState,
        index: usize,
        weights: &RecurrentWeights,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        let Some(recurrent) = &self.model.config.recurrent else { return Ok(ControlFlow::Continue(())) };
        let hidden = self.model.config.hidden as usize;
        if observer.observe(LinearInput::Attention, hidden, &state.normed).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        match &weights.channels {
            Some(channels) => {
                if self.project_by_channel(state, weights, channels, observer)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            None => self.project(state, weights)?,
        }
        state.profile.lap(Section::Matmul);
        if let RecurrentMixer::Mamba1 { .. } = recurrent.mixer
            && self.selective(state, index, weights, observer)?.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        let DecoderState { caches, mixer, .. } = state;
        caches.for_each(|rows, kv| {
            let Some(kept) = kv.recurrent(index) else { return };
            let rows = mixer.rows(rows);
            match recurrent.mixer {
                RecurrentMixer::GatedDelta { .. } => self.gated_delta(rows, kept, recurrent, weights),
                RecurrentMixer::Mamba2 { .. } => self.state_space(rows, kept, recurrent, weights),
                RecurrentMixer::ShortConv {} => self.short_conv(rows, kept, weights),
                RecurrentMixer::Mamba1 { .. } => {}
            }
        });
        state.profile.lap(Section::Attention);
        let DecoderState { mixer, coded, projected, .. } = state;
        let mixed = match recurrent.mixer {
            RecurrentMixer::ShortConv {} => &mixer.mixed,
            _ => &mixer.gate,
        };
        if observer.observe(LinearInput::MixerOutput, weights.output.weight.cols(), mixed).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[&weights.output], mixed, coded, &mut [projected])?;
        Ok(ControlFlow::Continue(()))
    }

    fn project(&self, state: &mut DecoderState, weights: &RecurrentWeights) -> Result<()> {
        let DecoderState { normed, coded, mixer, .. } = state;
        let MixerBuffers { input, gate, step, beta, .. } = mixer;
        let pairs: [(Option<&Linear>, &mut [f32]); 4] = [
            (Some(&weights.input), input),
            (weights.gate.as_ref(), gate),
            (weights.step.as_ref(), step),
            (weights.beta.as_ref(), beta),
        ];
        let mut linears = [&weights.input; 4];
        let mut outs: [&mut [f32]; 4] = Default::default();
        let mut count = 0;
        for (linear, out) in pairs {
            if let Some(linear) = linear {
                (linears[count], outs[count]) = (linear, out);
                count += 1;
            }
        }
        self.linears(&linears[..count], normed, coded, &mut outs[..count])?;
        if let Some(factors) = &self.model.config.multipliers {
            self.multiply_inputs(mixer, factors);
        }
        Ok(())
    }

    /// Multiplies what the projections of a mixer of Mamba-2 have given.
    fn multiply_inputs(&self, mixer: &mut MixerBuffers, factors: &Multipliers) {
        let MixerBuffers { widths, input, gate, step, .. } = mixer;
        let (isa, width) = (self.cpu.isa(), widths.mixed);
        self.multiply_rows(gate, widths.gate, factors.mixer_gate);
        self.multiply_rows(step, widths.steps, factors.mixer_step);
        let shared = (widths.input - width) / 2;
        self.cpu.for_each_rows([(&mut **input, widths.input)], WORK * widths.input, |_, [input]| {
            for row in input.chunks_exact_mut(widths.input) {
                let (x, rest) = row.split_at_mut(width);
                let (b, c) = rest.split_at_mut(shared);
                for (part, factor) in [x, b, c].into_iter().zip(factors.mixer_inputs) {
                    scale(isa, part, factor);
                }
            }
        });
    }

    /// The gated delta rule: queries, keys and values through the convolution, queries and keys of length 1, the state, and what it
    /// gives normalized and gated, into the buffer of the gate.
    fn gated_delta(
        &self,
        rows: MixerRows<'_>,
        kept: &mut RecurrentState,
        recurrent: &Recurrent,
        weights: &RecurrentWeights,
    ) {
        let RecurrentMixer::GatedDelta { key_heads, key_dim, value_heads, value_dim } = recurrent.mixer
        else {
            return;
        };
        let [key_heads, key_dim, value_heads, value_dim] =
            [key_heads, key_dim, value_heads, value_dim].map(|n| n as usize);
        let isa = self.cpu.isa();
        let epsilon = recurrent.norm_epsilon.unwrap_or(self.model.config.norm.epsilon);
        let beta_scale = recurrent.beta_scale.unwrap_or(1.0);
        let MixerRows { widths, input, channels, gate, step, beta, mixed } = rows;
        let (from, to) = kept.step();
        let conv = ShortConv {
            taps: &weights.conv,
            bias: weights.conv_bias.as_deref(),
            channels: widths.channels,
            silu: true,
        };
        let scale = 1.0 / (key_dim as f32).sqrt();
        let by_channel = recurrent.channel_rank.is_some();
        let rows = [(&mut *channels, widths.channels), (&mut *step, widths.steps), (&mut *beta, value_heads)];
        self.cpu.for_each_rows(rows, 2 * WORK * widths.channels, |first, [channels, step, beta]| {
            conv.rows(isa, &from.inputs, input, first, channels);
            for row in channels.chunks_exact_mut(widths.channels) {
                let (queries, rest) = row.split_at_mut(key_heads * key_dim);
                scale_to_length(isa, queries, key_dim, scale);
                scale_to_length(isa, &mut rest[..key_heads * key_dim], key_dim, 1.0);
            }
            positive_steps(isa, step, &weights.step_bias);
            decays(isa, step, widths.steps, &weights.decay);
            rates(isa, beta, beta_scale);
        });
        keep_last(&from.inputs, input, &mut to.inputs);
        let delta = GatedDelta {
            key_heads,
            key_dim,
            value_heads,
            value_dim,
            inputs: channels,
            decay: step,
            by_channel,
            beta,
        };
        self.cpu.gated_delta(&delta, &from.memory, &mut to.memory, mixed);
        let rows = [(&mut *mixed, widths.mixed), (&mut *gate, widths.mixed)];
        self.cpu.for_each_rows(rows, WORK * widths.mixed, |_, [mixed, gate]| {
            for head in mixed.chunks_exact_mut(value_dim) {
                rms_norm_in_place(isa, head, &weights.norm, epsilon);
            }
            if by_channel {
                sigmoid_gated(isa, mixed, gate);
                gate.copy_from_slice(mixed);
            } else {
                gated(isa, Function::Silu, gate, mixed);
            }
        });
    }

    /// Mamba-2: the inputs through the convolution, the state, and what it gives gated and then normalized, into the buffer of the
    /// gate.
    fn state_space(
        &self,
        rows: MixerRows<'_>,
        kept: &mut RecurrentState,
        recurrent: &Recurrent,
        weights: &RecurrentWeights,
    ) {
        let RecurrentMixer::Mamba2 { heads, head_dim, groups, state: columns } = recurrent.mixer else {
            return;
        };
        let [heads, head_dim, groups, columns] = [heads, head_dim, groups, columns].map(|n| n as usize);
        let (isa, epsilon) = (self.cpu.isa(), self.model.config.norm.epsilon);
        let MixerRows { widths, input, channels, gate, step, beta: decay, mixed } = rows;
        let (from, to) = kept.step();
        let conv = ShortConv {
            taps: &weights.conv,
            bias: weights.conv_bias.as_deref(),
            channels: widths.channels,
            silu: true,
        };
        let rows = [(&mut *channels, widths.channels), (&mut *step, heads), (&mut *decay, heads)];
        self.cpu.for_each_rows(rows, 2 * WORK * widths.channels, |first, [channels, step, decay]| {
            conv.rows(isa, &from.inputs, input, first, channels);
            positive_steps(isa, step, &weights.step_bias);
            decay.copy_from_slice(step);
            decays(isa, decay, heads, &weights.decay);
        });
        keep_last(&from.inputs, input, &mut to.inputs);
        let space = StateSpace {
            heads,
            head_dim,
            groups,
            state: columns,
            inputs: channels,
            decay,
            step,
            skip: &weights.skip,
        };
        self.cpu.state_space(&space, &from.memory, &mut to.memory, mixed);
        let rows = [(&mut *mixed, widths.mixed), (&mut *gate, widths.mixed)];
        self.cpu.for_each_rows(rows, WORK * widths.mixed, |_, [mixed, gate]| {
            gated(isa, Function::Silu, gate, mixed);
            // Without a norm there are no gains to go along with the parts.
            for row in gate.chunks_exact_mut(widths.mixed) {
                let parts = row.chunks_exact_mut(widths.mixed / groups);
                for (part, gain) in parts.zip(weights.norm.chunks_exact(widths.mixed / groups)) {
                    rms_norm_in_place(isa, part, gain, epsilon);
                }
            }
        });
    }

    /// LFM2: of the three parts B, C and x of the input, `C * conv(B * x)`.
    fn short_conv(&self, rows: MixerRows<'_>, kept: &mut RecurrentState, weights: &RecurrentWeights) {
        let isa = self.cpu.isa();
        let MixerRows { widths, input, channels, mixed, .. } = rows;
        let width = widths.channels;
        let (from, to) = kept.step();
        let conv = ShortConv {
            taps: &weights.conv,
            bias: weights.conv_bias.as_deref(),
            channels: width,
            silu: false,
        };
        self.cpu.for_each_rows([(&mut *channels, width)], WORK * width, |first, [channels]| {
            for (t, row) in (first..).zip(channels.chunks_exact_mut(width)) {
                let input = &input[t * 3 * width..][..3 * width];
                row.copy_from_slice(&input[..width]);
                multiply(isa, row, &input[2 * width..]);
            }
        });
        keep_last(&from.inputs, channels, &mut to.inputs);
        self.cpu.for_each_rows([(&mut *mixed, width)], WORK * width, |first, [mixed]| {
            conv.rows(isa, &from.inputs, channels, first, mixed);
            for (t, row) in (first..).zip(mixed.chunks_exact_mut(width)) {
                multiply(isa, row, &input[(t * 3 + 1) * width..][..width]);
            }
        });
    }
}
