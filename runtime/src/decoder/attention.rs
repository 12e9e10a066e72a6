//! Attention of one layer: normalize, project, rotate, remember, attend, project back.

use std::cell::RefCell;

use super::{Decoder, DecoderState, InputObserver, KvCache, LinearInput, Section};
use crate::cpu::{Scoring, attend, rms_norm_in_place};
use crate::weights::{LayerWeights, Norm};

thread_local! {
    /// Attention weights of one head: kept by each thread, so that nothing is allocated while a token is decoded.
    static SCORES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Decoder {
    /// What attention of layer `index` adds, into `state.projected`; its normalized input stays in `state.normed`.
    pub(super) fn attention(
        &self,
        state: &mut DecoderState,
        index: usize,
        layer: &LayerWeights,
        observer: &mut dyn InputObserver,
    ) {
        let config = &self.model.config;
        let DecoderState {
            hidden, normed, q, k, v, attended, projected, int8, kv, rotation, profile, ..
        } = state;
        self.norm_or_copy(layer.attn_norm.as_ref(), hidden, normed);
        profile.lap(Section::Elementwise);
        observer.observe(Some(index), LinearInput::Attention, normed);
        self.linears(&[&layer.q, &layer.k, &layer.v], normed, int8, &mut [q, k, v]);
        profile.lap(Section::Matmul);
        self.norm_heads(layer.q_norm.as_ref(), q);
        self.norm_heads(layer.k_norm.as_ref(), k);
        let past = kv.len();
        if let Some(rope) = rotation.of_layer(config, index as u32) {
            let (isa, q_width, kv_width) = (self.cpu.isa(), config.q_rows(), config.kv_rows());
            for (t, (q, k)) in q.chunks_exact_mut(q_width).zip(k.chunks_exact_mut(kv_width)).enumerate() {
                rope.apply(isa, q, past + t);
                rope.apply(isa, k, past + t);
            }
        }
        profile.lap(Section::Elementwise);
        kv.store(index, k, v);
        self.attend_heads(kv, index, q, attended);
        profile.lap(Section::Attention);
        observer.observe(Some(index), LinearInput::AttnOutput, attended);
        self.linears(&[&layer.output], attended, int8, &mut [projected]);
    }

    /// Normalizes runs of as many values as the norm has gains: heads, or all heads of a token together.
    fn norm_heads(&self, norm: Option<&Norm>, heads: &mut [f32]) {
        let Some(norm) = norm else { return };
        for run in heads.chunks_exact_mut(norm.gain.len()) {
            rms_norm_in_place(self.cpu.isa(), run, &norm.gain, self.model.config.norm.epsilon);
        }
    }

    /// Every head of every token over the positions up to its own; keys and values of the step are stored already.
    fn attend_heads(&self, kv: &KvCache, index: usize, q: &[f32], attended: &mut [f32]) {
        let config = &self.model.config;
        let dim = config.head_dim as usize;
        let (heads, group) = (config.heads as usize, (config.heads / config.kv_heads) as usize);
        let scale = config.attention_scale.unwrap_or(1.0 / (dim as f32).sqrt());
        let window = config.window(index as u32).map_or(usize::MAX, |size| size as usize);
        let (past, tokens) = (kv.len(), q.len() / (heads * dim));
        let work = q.len().saturating_mul(2 * (past + tokens).min(window));
        self.cpu.for_each_chunk(attended, dim, work, |i, out| {
            let (t, head) = (i / heads, i % heads);
            let seen = past + t + 1;
            let (keys, values) = kv.head(index, head / group, seen.saturating_sub(window)..seen);
            let slope = self.slopes.get(head).copied().unwrap_or(0.0);
            let scoring = Scoring { scale, softcap: config.attention_softcap, slope };
            SCORES.with_borrow_mut(|scores| {
                scores.clear();
                scores.reserve(kv.capacity());
                attend(self.cpu.isa(), &q[i * dim..][..dim], keys, values, scoring, scores, out);
            });
        });
    }
}
