//! Attention beside a recurrence: both read the same, and what they give is added up.

use std::ops::ControlFlow;

use super::{AttentionLook, Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::weights::{AttentionWeights, RecurrentWeights};
use qsf_cpu::{add_assign, scale};
use qsf_format::Multipliers;

/// What multiplying or adding a value costs, in multiply-adds of matrices.
const WORK: usize = 8;

impl Decoder {
    /// What both mixers of layer `index` add for the normalized rows in `state.normed`, into `state.projected`.
    pub(super) fn both(
        &self,
        state: &mut DecoderState,
        index: usize,
        attention: &AttentionWeights,
        recurrent: &RecurrentWeights,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        if self.recurrent(state, index, recurrent, observer)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        state.profile.lap(Section::Matmul);
        std::mem::swap(&mut state.projected, &mut state.mixer.beside);
        if self.attention(state, index, attention, &mut InputSeen(observer))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        state.profile.lap(Section::Matmul);
        let factors = self.multipliers();
        let (isa, width) = (self.cpu.isa(), self.model.config.hidden as usize);
        let matrices = [(&mut *state.projected, width), (&mut state.mixer.beside, width)];
        self.cpu.for_each_rows(matrices, WORK * width, |_, [attended, mixed]| {
            scale(isa, attended, factors.attention);
            scale(isa, mixed, factors.mixer);
            add_assign(isa, attended, mixed);
        });
        Ok(ControlFlow::Continue(()))
    }

    /// What parts of layers are multiplied with.
    pub(super) fn multipliers(&self) -> Multipliers {
        self.model.config.multipliers.unwrap_or(Multipliers::ONES)
    }

    /// Multiplies `state.projected`, where that changes something.
    pub(super) fn multiply_projected(&self, state: &mut DecoderState, factor: f32) {
        self.multiply_rows(&mut state.projected, self.model.config.hidden as usize, factor);
    }

    /// Multiplies rows of `width` values, where that changes something.
    pub(super) fn multiply_rows(&self, rows: &mut [f32], width: usize, factor: f32) {
        if factor != 1.0 {
            let isa = self.cpu.isa();
            self.cpu.for_each_rows([(rows, width)], WORK * width, |_, [rows]| scale(isa, rows, factor));
        }
    }
}

/// Hides what the observer has seen: the input that both mixers read.
struct InputSeen<'a>(&'a mut dyn InputObserver);

impl InputObserver for InputSeen<'_> {
    fn attended(&mut self, look: &AttentionLook<'_>) {
        self.0.attended(look);
    }

    fn observe(&mut self, input: LinearInput, cols: usize, rows: &[f32]) -> ControlFlow<()> {
        match input {
            LinearInput::Attention => ControlFlow::Continue(()),
            _ => self.0.observe(input, cols, rows),
        }
    }
}
