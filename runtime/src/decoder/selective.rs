//! Mamba-1: steps and two inputs of the state are made of what the convolution gives, so that there are projections between it and
//! the state.

use std::ops::ControlFlow;

use super::mixer_buffers::MixerBuffers;
use super::{Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::weights::{RecurrentWeights, Selection};
use qsf_cpu::{Function, SelectiveScan, ShortConv, gated, keep_last, positive_steps, rms_norm_in_place};
use qsf_format::RecurrentMixer;

/// What an elementary function, or a norm, of a value costs, in multiply-adds of matrices.
const WORK: usize = 32;

impl Decoder {
    /// What is between the input and the output projection of layer `index`, into the buffer of the gate.
    pub(super) fn selective(
        &self,
        state: &mut DecoderState,
        index: usize,
        weights: &RecurrentWeights,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        let Some(RecurrentMixer::Mamba1 { width, state: columns, rank, norm_epsilon, .. }) =
            self.model.config.recurrent.as_ref().map(|recurrent| recurrent.mixer)
        else {
            return Ok(ControlFlow::Continue(()));
        };
        let Some(Selection { select, norms, step: of_steps }) = &weights.selection else {
            return Ok(ControlFlow::Continue(()));
        };
        let [width, columns, rank] = [width, columns, rank].map(|n| n as usize);
        let isa = self.cpu.isa();
        self.convolve(state, index, weights);
        state.profile.lap(Section::Attention);
        let DecoderState { mixer, coded, caches, profile, .. } = state;
        let MixerBuffers { channels, gate, step, selected, ranks, mixed, .. } = mixer;
        if observer.observe(LinearInput::MixerSelect, width, channels).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[select], channels, coded, &mut [&mut *selected])?;
        profile.lap(Section::Matmul);
        let all = rank + 2 * columns;
        self.cpu.for_each_rows(
            [(&mut **selected, all), (ranks, rank)],
            WORK * all,
            |_, [selected, ranks]| {
                for (row, ranks) in selected.chunks_exact_mut(all).zip(ranks.chunks_exact_mut(rank)) {
                    if let (Some(epsilon), Some(norms)) = (norm_epsilon, norms) {
                        let (of_step, rest) = row.split_at_mut(rank);
                        let (b, c) = rest.split_at_mut(columns);
                        for (part, gain) in [of_step, b, c].into_iter().zip(norms) {
                            rms_norm_in_place(isa, part, gain, epsilon);
                        }
                    }
                    ranks.copy_from_slice(&row[..rank]);
                }
            },
        );
        profile.lap(Section::Elementwise);
        if observer.observe(LinearInput::MixerStep, rank, ranks).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[of_steps], ranks, coded, &mut [&mut *step])?;
        profile.lap(Section::Matmul);
        self.cpu.for_each_rows([(&mut **step, width)], WORK * width, |_, [step]| {
            positive_steps(isa, step, &weights.step_bias);
        });
        caches.for_each(|rows, kv| {
            let Some(kept) = kv.recurrent(index) else { return };
            let (from, to) = kept.step();
            let of = |width: usize| rows.start * width..rows.end * width;
            let scan = SelectiveScan {
                channels: width,
                state: columns,
                inputs: &channels[of(width)],
                step: &step[of(width)],
                shared: &selected[of(all)],
                decay: &weights.decay,
                skip: &weights.skip,
            };
            self.cpu.selective_scan(&scan, &from.memory, &mut to.memory, &mut mixed[of(width)]);
        });
        self.cpu.for_each_rows([(&mut **mixed, width), (gate, width)], WORK * width, |_, [mixed, gate]| {
            gated(isa, Function::Silu, gate, mixed);
        });
        Ok(ControlFlow::Continue(()))
    }

    /// The input through the convolution.
    fn convolve(&self, state: &mut DecoderState, index: usize, weights: &RecurrentWeights) {
        let isa = self.cpu.isa();
        let DecoderState { mixer, caches, .. } = state;
        caches.for_each(|rows, kv| {
            let Some(kept) = kv.recurrent(index) else { return };
            let rows = mixer.rows(rows);
            let (from, to) = kept.step();
            let width = rows.widths.channels;
            let conv = ShortConv {
                taps: &weights.conv,
                bias: weights.conv_bias.as_deref(),
                channels: width,
                silu: true,
            };
            let input = rows.input;
            self.cpu.for_each_rows([(rows.channels, width)], WORK * width, |first, [channels]| {
                conv.rows(isa, &from.inputs, input, first, channels);
            });
            keep_last(&from.inputs, input, &mut to.inputs);
        });
    }
}
