//! Attention of one layer: project, normalize and rotate, remember, attend, gate, project back.

use std::ops::ControlFlow;

use super::{Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::weights::{AttentionWeights, Norm};
use qsf_cpu::{Attention, RopeTable, clip, layer_norm_in_place, rms_norm_in_place, scale, sigmoid_gated};
use qsf_format::{QkNorm, QueryGrowth};

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
        if let (Some(latent), Some(of_latents)) = (config.latent, &weights.latent) {
            return self.latent_attention(state, index, weights, (latent, of_latents), observer);
        }
        let AttentionWeights { q: query, gate, output, .. } = weights;
        let (Some(key), Some(value)) = (&weights.k, &weights.v) else {
            return Ok(ControlFlow::Continue(()));
        };
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
        if observer.observe(LinearInput::Attention, query.weight.cols(), normed).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        match gate {
            None => self.linears(&[query, key, value], normed, coded, &mut [q, k, v])?,
            Some(gate) => {
                let outs = &mut [&mut **q, k, v, attention_gate];
                self.linears(&[query, key, value, gate], normed, coded, outs)?;
            }
        }
        profile.lap(Section::Matmul);
        if let Some(limit) = config.qkv_clip {
            clip(self.cpu.isa(), v, limit);
        }
        self.place(weights, rotation.of_layer(config, index as u32), kv.len(), q, k);
        profile.lap(Section::Elementwise);
        kv.store(&self.cpu, index, k, v);
        let parameters = Attention {
            heads: config.heads as usize,
            window: config.window(index as u32).map_or(usize::MAX, |size| size as usize),
            scale: config.attention_scale.unwrap_or(1.0 / (config.head_dim as f32).sqrt()),
            softcap: config.attention_softcap,
            slopes: &self.slopes,
            sinks: weights.sinks.as_deref().unwrap_or_default(),
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

    /// Normalizes and limits queries and keys of tokens from `position` on, and turns them to their positions.
    pub(super) fn place(
        &self,
        weights: &AttentionWeights,
        rope: Option<&RopeTable>,
        position: usize,
        q: &mut [f32],
        k: &mut [f32],
    ) {
        let config = &self.model.config;
        let of_config = config.qkv_clip.is_some() || config.query_growth.is_some();
        if weights.q_norm.is_none() && weights.k_norm.is_none() && rope.is_none() && !of_config {
            return;
        }
        let norms_first = config.qk_norm != Some(QkNorm::RotatedHead);
        let (isa, widths) = (self.cpu.isa(), (config.q_rows(), config.kv_rows()));
        let work = WORK * (widths.0 + widths.1);
        self.cpu.for_each_rows([(q, widths.0), (k, widths.1)], work, |first, [q, k]| {
            let rows = q.chunks_exact_mut(widths.0).zip(k.chunks_exact_mut(widths.1));
            for (t, (q, k)) in (first..).zip(rows) {
                if norms_first {
                    self.norm_heads(weights.q_norm.as_ref(), q);
                    self.norm_heads(weights.k_norm.as_ref(), k);
                }
                if let Some(limit) = config.qkv_clip {
                    clip(isa, q, limit);
                    clip(isa, k, limit);
                }
                if let Some(rope) = rope {
                    rope.apply(isa, q, position + t);
                    rope.apply(isa, k, position + t);
                }
                if !norms_first {
                    self.norm_heads(weights.q_norm.as_ref(), q);
                    self.norm_heads(weights.k_norm.as_ref(), k);
                }
                if let Some(growth) = config.query_growth {
                    scale(isa, q, grown(growth, position + t));
                }
            }
        });
    }

    /// Normalizes runs of as many values as the norm has gains: heads, or all heads of a token together. Or each head by gains
    /// of its own.
    fn norm_heads(&self, norm: Option<&Norm>, heads: &mut [f32]) {
        let Some(Norm { gain, .. }) = norm else { return };
        let (isa, config) = (self.cpu.isa(), &self.model.config);
        if config.qk_norm == Some(QkNorm::HeadsApart) {
            let head_dim = config.head_dim as usize;
            for (head, gain) in heads.chunks_exact_mut(head_dim).zip(gain.chunks_exact(head_dim)) {
                layer_norm_in_place(isa, head, gain, None, config.norm.epsilon);
            }
            return;
        }
        for run in heads.chunks_exact_mut(gain.len()) {
            rms_norm_in_place(isa, run, gain, config.norm.epsilon);
        }
    }
}

/// What queries at `position` are multiplied with.
pub(super) fn grown(growth: QueryGrowth, position: usize) -> f32 {
    let QueryGrowth { factor, original_positions } = growth;
    let times = position / (original_positions as usize).max(1);
    (1.0 + f64::from(factor) * libm::log1p(times as f64)) as f32
}
