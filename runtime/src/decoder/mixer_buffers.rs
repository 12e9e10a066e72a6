//! What the tokens of a step are between the projections of a recurrent mixer.

use std::ops::Range;

use qsf_format::{ModelConfig, RecurrentMixer};

use crate::error::Result;
use qsf_cpu::AlignedFloats;

/// What the tokens of a step are between the projections of a recurrent mixer; without such layers nothing.
#[derive(Default)]
pub(super) struct MixerBuffers {
    pub widths: MixerWidths,
    pub input: AlignedFloats,
    /// What the convolution gives, or what a short one sees.
    pub channels: AlignedFloats,
    pub gate: AlignedFloats,
    pub step: AlignedFloats,
    pub beta: AlignedFloats,
    pub selected: AlignedFloats,
    pub ranks: AlignedFloats,
    pub mixed: AlignedFloats,
    /// What a mixer gives while attention beside it is computed.
    pub beside: AlignedFloats,
}

/// The buffers of some tokens that follow each other in a sequence.
pub(super) struct MixerRows<'a> {
    pub widths: MixerWidths,
    pub input: &'a [f32],
    pub channels: &'a mut [f32],
    pub gate: &'a mut [f32],
    pub step: &'a mut [f32],
    pub beta: &'a mut [f32],
    pub mixed: &'a mut [f32],
}

#[derive(Clone, Copy, Default)]
pub(super) struct MixerWidths {
    pub input: usize,
    pub channels: usize,
    pub gate: usize,
    pub steps: usize,
    pub beta: usize,
    /// What steps are made of and inputs that channels share, or what gates are made of; and what steps are made of alone.
    pub selected: usize,
    pub ranks: usize,
    pub mixed: usize,
    /// Of the residual stream, where there is attention beside the mixer.
    pub beside: usize,
}

impl MixerWidths {
    fn of(config: &ModelConfig) -> MixerWidths {
        let Some(recurrent) = &config.recurrent else { return MixerWidths::default() };
        let hidden = config.hidden as usize;
        let (selected, ranks) = match recurrent.mixer {
            RecurrentMixer::Mamba1 { state, rank, .. } => ((rank + 2 * state) as usize, rank as usize),
            _ => {
                let rank = recurrent.channel_rank.unwrap_or(0) as usize;
                (rank, rank)
            }
        };
        MixerWidths {
            input: recurrent.input_rows(hidden),
            channels: recurrent.channels(hidden),
            gate: match recurrent.mixer {
                RecurrentMixer::ShortConv {} => 0,
                _ => recurrent.output_columns(hidden),
            },
            steps: recurrent.steps(),
            beta: match recurrent.mixer {
                RecurrentMixer::Mamba1 { .. } => 0,
                _ => recurrent.heads(),
            },
            selected,
            ranks,
            mixed: recurrent.output_columns(hidden),
            beside: if recurrent.beside_attention { hidden } else { 0 },
        }
    }
}

impl MixerBuffers {
    pub fn new(config: &ModelConfig, batch: usize) -> Result<MixerBuffers> {
        let widths = MixerWidths::of(config);
        let buffer = |width: usize| AlignedFloats::zeros(batch * width, "activations of a step");
        Ok(MixerBuffers {
            widths,
            input: buffer(widths.input)?,
            channels: buffer(widths.channels)?,
            gate: buffer(widths.gate)?,
            step: buffer(widths.steps)?,
            beta: buffer(widths.beta)?,
            selected: buffer(widths.selected)?,
            ranks: buffer(widths.ranks)?,
            mixed: buffer(widths.mixed)?,
            beside: buffer(widths.beside)?,
        })
    }

    /// Those of the tokens `rows` of the step.
    pub fn rows(&mut self, rows: Range<usize>) -> MixerRows<'_> {
        let widths = self.widths;
        let of = |width: usize| rows.start * width..rows.end * width;
        MixerRows {
            widths,
            input: &self.input[of(widths.input)],
            channels: &mut self.channels[of(widths.channels)],
            gate: &mut self.gate[of(widths.gate)],
            step: &mut self.step[of(widths.steps)],
            beta: &mut self.beta[of(widths.beta)],
            mixed: &mut self.mixed[of(widths.mixed)],
        }
    }

    pub fn floats_per_token(config: &ModelConfig) -> usize {
        let MixerWidths { input, channels, gate, steps, beta, selected, ranks, mixed, beside } =
            MixerWidths::of(config);
        input + channels + gate + steps + beta + selected + ranks + mixed + beside
    }

    /// Makes room for `tokens` tokens, of those that there is room for.
    pub fn resize(&mut self, tokens: usize) {
        let MixerWidths { input, channels, gate, steps, beta, selected, ranks, mixed, beside } = self.widths;
        for (buffer, width) in [
            (&mut self.input, input),
            (&mut self.channels, channels),
            (&mut self.gate, gate),
            (&mut self.step, steps),
            (&mut self.beta, beta),
            (&mut self.selected, selected),
            (&mut self.ranks, ranks),
            (&mut self.mixed, mixed),
            (&mut self.beside, beside),
        ] {
            buffer.resize(tokens * width);
        }
    }
}
