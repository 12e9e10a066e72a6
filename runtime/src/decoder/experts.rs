//! A mixture of experts: the router, the experts that tokens chose, and what all tokens go through besides.

use std::ops::ControlFlow;

use qsf_format::Experts;

use super::{Decoder, DecoderState, InputObserver, LinearInput};
use crate::error::Result;
use crate::weights::{Mixture, Norm, Shared};
use qsf_cpu::math::sigmoid;
use qsf_cpu::{add_scaled, scale};

impl Decoder {
    /// What the experts of a layer add for the rows in `state.normed`, into `state.projected`.
    pub(super) fn mixture(
        &self,
        state: &mut DecoderState,
        mixture: &Mixture,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        let Some(config) = &self.model.config.experts else { return Ok(ControlFlow::Continue(())) };
        let DecoderState { hidden, normed, projected, coded, routing, .. } = state;
        let hidden_width = self.model.config.hidden as usize;
        let tokens = normed.len() / hidden_width;
        let logits = &mut routing.logits[..tokens * mixture.experts.len()];
        let read: &[f32] = match &mixture.beside {
            Some(beside) => {
                let own = &mut routing.own[..tokens * hidden_width];
                self.norm_of(&beside.router_norm, hidden, own);
                own
            }
            None => normed,
        };
        self.linears(&[&mixture.router], read, coded, &mut [logits])?;
        let factors = mixture.beside.as_ref().map(|beside| &beside.scale[..]);
        routing.choose(self.cpu.isa(), tokens, config, mixture.choice_bias.as_deref(), factors);
        if let Some(beside) = &mixture.beside {
            let own = &mut routing.own[..tokens * hidden_width];
            self.norm_of(&beside.expert_norm, hidden, own);
            if observer.observe(LinearInput::Experts, hidden_width, own).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        projected.fill(0.0);
        self.experts(state, config, mixture, observer)?;
        if let Some(beside) = &mixture.beside {
            self.norm_rows(&beside.post_expert_norm, &mut state.projected);
        }
        let norm = mixture.beside.as_ref().map(|beside| &beside.post_side_norm);
        match &mixture.shared {
            Some(shared) => self.shared(state, shared, norm, observer),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// Each expert runs once for all tokens that chose it. A token's sum is taken in the order of experts, whatever
    /// other tokens are in the step.
    fn experts(
        &self,
        state: &mut DecoderState,
        config: &Experts,
        mixture: &Mixture,
        observer: &mut dyn InputObserver,
    ) -> Result<()> {
        let (isa, hidden) = (self.cpu.isa(), self.model.config.hidden as usize);
        let (used, width) = (config.used as usize, config.ffn as usize);
        let DecoderState { normed, gate, up, projected, coded, routing, profile, .. } = state;
        let tokens = normed.len() / hidden;
        let of_experts = mixture.beside.is_some();
        for (e, mlp) in mixture.experts.iter().enumerate() {
            let mut count = 0;
            let rows: &[f32] = if of_experts { &routing.own[..tokens * hidden] } else { normed };
            for (t, row) in rows.chunks_exact(hidden).enumerate() {
                if let Some(weight) = routing.weight(t, e, used) {
                    let input = &mut routing.input[count * hidden..][..hidden];
                    input.copy_from_slice(row);
                    if config.weigh_inputs {
                        scale(isa, input, weight);
                    }
                    count += 1;
                }
            }
            if count == 0 {
                continue;
            }
            let input = &routing.input[..count * hidden];
            if observer.observe(LinearInput::ExpertFfn(e as u32), hidden, input).is_break() {
                continue;
            }
            let gate = if mlp.gate.is_some() { &mut gate[..count * width] } else { &mut [] };
            let inner = self.inner(mlp, input, gate, &mut up[..count * width], coded, profile)?;
            if observer.observe(LinearInput::ExpertDown(e as u32), width, inner).is_break() {
                continue;
            }
            let output = &mut routing.output[..count * hidden];
            self.linears(&[&mlp.down], inner, coded, &mut [output])?;
            let chosen = (0..tokens).filter_map(|t| Some((t, routing.weight(t, e, used)?)));
            for ((t, weight), output) in chosen.zip(routing.output.chunks_exact(hidden)) {
                let weight = if config.weigh_inputs { 1.0 } else { weight };
                add_scaled(isa, &mut projected[t * hidden..][..hidden], weight, output);
            }
        }
        Ok(())
    }

    /// Adds what the shared experts give, normalized by `norm` where that is there.
    fn shared(
        &self,
        state: &mut DecoderState,
        shared: &Shared,
        norm: Option<&Norm>,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        let hidden = self.model.config.hidden as usize;
        let DecoderState { normed, gate, up, projected, coded, routing, profile, .. } = state;
        let tokens = normed.len() / hidden;
        let Shared { router, mlp } = shared;
        let width = tokens * mlp.up.weight.rows();
        let gate = if mlp.gate.is_some() { &mut gate[..width] } else { &mut [] };
        let inner = self.inner(mlp, normed, gate, &mut up[..width], coded, profile)?;
        if observer.observe(LinearInput::FfnDown, mlp.down.weight.cols(), inner).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let output = &mut routing.output[..tokens * hidden];
        self.linears(&[&mlp.down], inner, coded, &mut [&mut *output])?;
        if let Some(norm) = norm {
            self.norm_rows(norm, output);
        }
        if let Some(router) = router {
            let logits = &mut routing.logits[..tokens];
            self.linears(&[router], normed, coded, &mut [logits])?;
        }
        for (t, output) in routing.output[..tokens * hidden].chunks_exact(hidden).enumerate() {
            let weight = if router.is_some() { sigmoid(routing.logits[t]) } else { 1.0 };
            add_scaled(self.cpu.isa(), &mut projected[t * hidden..][..hidden], weight, output);
        }
        Ok(ControlFlow::Continue(()))
    }
}
