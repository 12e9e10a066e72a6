//! The projections of a gated delta rule in which each channel of a key decays for itself (Kimi Delta Attention): its decays and
//! gates are made by way of a few values.

use std::ops::ControlFlow;

use super::mixer_buffers::MixerBuffers;
use super::{Decoder, DecoderState, InputObserver, LinearInput};
use crate::error::Result;
use crate::weights::{Linear, RecurrentWeights};

impl Decoder {
    /// All that is made of the normalized rows in `state.normed` before the convolution.
    ///
    /// # Errors
    /// When weights cannot be read from disk.
    pub(super) fn project_by_channel(
        &self,
        state: &mut DecoderState,
        weights: &RecurrentWeights,
        [gate_down, step_up]: &[Linear; 2],
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        let (Some(of_gate), Some(of_step), Some(of_beta)) = (&weights.gate, &weights.step, &weights.beta)
        else {
            return Ok(ControlFlow::Continue(()));
        };
        let DecoderState { normed, coded, mixer, .. } = state;
        let MixerBuffers { input, gate, step, beta, selected, ranks, .. } = mixer;
        self.linears(&[&weights.input, gate_down], normed, coded, &mut [input, selected])?;
        if observer.observe(LinearInput::MixerGate, of_gate.weight.cols(), selected).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[of_gate], selected, coded, &mut [gate])?;
        self.linears(&[of_step, of_beta], normed, coded, &mut [ranks, beta])?;
        if observer.observe(LinearInput::MixerStep, step_up.weight.cols(), ranks).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[step_up], ranks, coded, &mut [step])?;
        Ok(ControlFlow::Continue(()))
    }
}
