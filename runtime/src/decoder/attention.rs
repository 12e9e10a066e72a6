//! Attention of one layer: project, normalize and rotate, remember, attend, gate, project back.

use std::ops::ControlFlow;

use super::{Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::weights::{AttentionWeights, Norm};
use qsf_cpu::{Attention, RopeTable, rms_norm_in_place, sigmoid_gated};

/// What normalizing and rotating a value costs, in multiply-adds of matrices.
const WORK: usize = 8;

impl Decoder {
    /// What attention of layer `index` adds for the normalized rows in `state.normed`, into `state.projected`.
    pub(super) fn attention(
        &self,
        state: &mut DecoderState,
        index: usize,
        weights: &AttentionWeights,
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        let config = &self.model.config;
        let DecoderState {
            normed,
            q,
            k,
            v,
            attended,
            attention_gate,
            projected,
            coded,
            kv,
            rotation,
            attention,
            profile,
            ..
        } = state;
        let AttentionWeights { q: q_linear, k: k_linear, v: v_linear, gate, output, .. } = weights;
        if observer.observe(LinearInput::Attention, q_linear.weight.cols(), normed).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        match gate {
            None => self.linears(&[q_linear, k_linear, v_linear], normed, coded, &mut [q, k, v])?,
            Some(gate) => self.linears(
                &[q_linear, k_linear, v_linear, gate],
                normed,
                coded,
                &mut [q, k, v, attention_gate],
            )?,
        }
        profile.lap(Section::Matmul);
        self.place(weights, rotation.of_layer(config, index as u32), kv.len(), q, k);
        profile.lap(Section::Elementwise);
        kv.store(&self.cpu, index, k, v);
        let parameters = Attention {
            heads: config.heads as usize,
            window: config.window(index as u32).map_or(usize::MAX, |size| size as usize),
            scale: config.attention_scale.unwrap_or(1.0 / (config.head_dim as f32).sqrt()),
            softcap: config.attention_softcap,
            slopes: &self.slopes,
            by_unit: self.activations.by_unit(q.len() / config.q_rows()),
        };
        self.cpu.attend(&parameters, kv.layer(index), kv.position_in(index), q, attention, attended);
        kv.count_attention(&self.cpu, index, &parameters, q);
        profile.lap(Section::Attention);
        if gate.is_some() {
            let (isa, width) = (self.cpu.isa(), config.q_rows());
            self.cpu.for_each_rows([(attended, width)], WORK * width, |first, [attended]| {
                sigmoid_gated(isa, attended, &attention_gate[first * width..][..attended.len()]);
            });
            profile.lap(Section::Elementwise);
        }
        if observer.observe(LinearInput::AttnOutput, output.weight.cols(), attended).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[output], attended, coded, &mut [projected])?;
        Ok(ControlFlow::Continue(()))
    }

    /// Normalizes queries and keys of tokens from `position` on, and turns them to their positions.
    pub(super) fn place(
        &self,
        weights: &AttentionWeights,
        rope: Option<&RopeTable>,
        position: usize,
        q: &mut [f32],
        k: &mut [f32],
    ) {
        if weights.q_norm.is_none() && weights.k_norm.is_none() && rope.is_none() {
            return;
        }
        let (isa, widths) = (self.cpu.isa(), (self.model.config.q_rows(), self.model.config.kv_rows()));
        let work = WORK * (widths.0 + widths.1);
        self.cpu.for_each_rows([(q, widths.0), (k, widths.1)], work, |first, [q, k]| {
            let rows = q.chunks_exact_mut(widths.0).zip(k.chunks_exact_mut(widths.1));
            for (t, (q, k)) in (first..).zip(rows) {
                self.norm_heads(weights.q_norm.as_ref(), q);
                self.norm_heads(weights.k_norm.as_ref(), k);
                if let Some(rope) = rope {
                    rope.apply(isa, q, position + t);
                    rope.apply(isa, k, position + t);
                }
            }
        });
    }

    /// Normalizes runs of as many values as the norm has gains: heads, or all heads of a token together.
    fn norm_heads(&self, norm: Option<&Norm>, heads: &mut [f32]) {
        let Some(norm) = norm else { return };
        for run in heads.chunks_exact_mut(norm.gain.len()) {
            rms_norm_in_place(self.cpu.isa(), run, &norm.gain, self.model.config.norm.epsilon);
        }
    }
}
