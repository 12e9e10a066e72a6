//! Attention of one layer: project, normalize and rotate, remember, attend, gate, project back.

use std::ops::{ControlFlow, Range};

use super::kv_cache::KvCache;
use super::{AttentionLook, Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::weights::{AttentionWeights, Norm};
use qsf_cpu::{
    Attention, QueryOfOne, RopeTable, clip, layer_norm_in_place, rms_norm_in_place, scale, sigmoid_gated,
};
use qsf_format::{QkNorm, QueryGrowth};

/// What normalizing and rotating a value costs, in multiply-adds of matrices.
const WORK: usize = 8;
/// Heads of keys and values of the longest sequence that each thread should have the work of, at least, where several sequences are
/// attended to at once.
const TASKS_PER_THREAD: usize = 2;

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
        let DecoderState {
            normed,
            q,
            k,
            v,
            attended,
            attention_gate,
            projected,
            coded,
            caches,
            rotation,
            attention,
            profile,
            ..
        } = state;
        if observer.observe(LinearInput::Attention, query.weight.cols(), normed).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let shape = config.attention_shape(index as u32);
        let tokens = normed.len() / config.hidden as usize;
        let q = &mut q[..tokens * config.heads as usize * config.query_dim(index as u32)];
        let attended = &mut attended[..tokens * config.output_cols(index as u32)];
        let own = if weights.k.is_some() { tokens } else { 0 };
        let k = &mut k[..own * shape.kv_heads * shape.key_dim];
        let v = &mut v[..own * shape.kv_heads * shape.value_dim];
        match (&weights.k, &weights.v, gate) {
            (Some(key), Some(value), None) => {
                self.linears(&[query, key, value], normed, coded, &mut [q, k, v])?;
            }
            (Some(key), Some(value), Some(gate)) => {
                let outs = &mut [&mut *q, k, v, attention_gate];
                self.linears(&[query, key, value, gate], normed, coded, outs)?;
            }
            (Some(key), None, _) => {
                self.linears(&[query, key], normed, coded, &mut [q, k])?;
                v.copy_from_slice(k);
            }
            (None, ..) => self.linears(&[query], normed, coded, &mut [q])?,
        }
        profile.lap(Section::Matmul);
        self.place(weights, rotation.of_layer(config, index as u32), caches.positions(), q, k);
        self.finish_values(weights, v);
        profile.lap(Section::Elementwise);
        let chunk = config.window(index as u32).filter(|_| config.window_chunks).map(|size| size as usize);
        let parameters = |tokens, first| Attention {
            heads: config.heads as usize,
            window: config.window(index as u32).map_or(usize::MAX, |size| size as usize),
            first,
            scale: config.attention_scale.unwrap_or(1.0 / (config.head_dim as f32).sqrt()),
            softcap: config.attention_softcap,
            slopes: &self.slopes,
            sinks: weights.sinks.as_deref().unwrap_or_default(),
            by_unit: self.activations.by_unit(tokens),
        };
        let widths = [q.len(), k.len(), v.len(), attended.len()].map(|all| all / tokens);
        let of_rows = |rows: &Range<usize>| widths.map(|width| rows.start * width..rows.end * width);
        if weights.k.is_some() {
            caches.for_each(|rows, kv| {
                let [_, keys, values, _] = of_rows(&rows);
                kv.store(&self.cpu, index, &k[keys], &v[values]);
            });
        }
        // A head of a long sequence among short ones would be one thread's task, while the others are idle.
        let seen = |position: &usize| position.saturating_add(1).min(parameters(1, 0).window);
        let all_seen = caches.positions().iter().map(seen).sum::<usize>() * shape.kv_heads;
        let longest = caches.positions().iter().map(seen).max().unwrap_or(0);
        let even = all_seen >= TASKS_PER_THREAD * self.cpu.threads() * longest;
        let at_once = match caches.of_single_rows().filter(|_| tokens > 1 && even && chunk.is_none()) {
            Some(caches) => {
                let rows = q.chunks_exact(widths[0]).zip(attended.chunks_exact_mut(widths[3]));
                let query = |(kv, (q, out))| {
                    let kv: &KvCache = kv;
                    QueryOfOne { kv: kv.layer(index), position: kv.position_in(index), q, out }
                };
                self.cpu.attend_each(&parameters(1, 0), caches.zip(rows).map(query).collect());
                true
            }
            None => false,
        };
        caches.for_each(|rows, kv| {
            let [q_rows, k_rows, _, out_rows] = of_rows(&rows);
            let (keys, q, out) = (&k[k_rows], &q[q_rows], &mut attended[out_rows]);
            let (layer, position) = (kv.layer(index), kv.position_in(index));
            let mut show = |attention, position, q, keys| {
                let look =
                    AttentionLook { layer: index, position, keys, cpu: &self.cpu, attention, kv: layer, q };
                observer.attended(&look);
            };
            let Some(chunk) = chunk else {
                let parameters = parameters(rows.len(), 0);
                if !at_once {
                    self.cpu.attend(&parameters, layer, position, q, attention, out);
                }
                show(parameters, position, q, keys);
                kv.count_attention(&self.cpu, index, &parameters, q);
                return;
            };
            // Tokens of one chunk see the same first position.
            let (tokens, mut at) = (rows.len(), 0);
            while at < tokens {
                let first = (position + at) / chunk * chunk;
                let end = (first + chunk - position).min(tokens);
                let (q, out) =
                    (&q[at * widths[0]..end * widths[0]], &mut out[at * widths[3]..end * widths[3]]);
                let parameters = parameters(end - at, first);
                self.cpu.attend(&parameters, layer, position + at, q, attention, out);
                let keys = &keys[widths[1] * at..widths[1] * end];
                show(parameters, position + at, q, keys);
                at = end;
            }
        });
        profile.lap(Section::Attention);
        if gate.is_some() {
            let (isa, width) = (self.cpu.isa(), config.q_rows());
            self.cpu.for_each_rows([(attended, width)], WORK * width, |first, [attended]| {
                sigmoid_gated(isa, attended, &attention_gate[first * width..][..attended.len()]);
            });
            profile.lap(Section::Elementwise);
        }
        if let Some(norm) = &weights.sub_norm {
            self.norm_rows(norm, attended);
            profile.lap(Section::Elementwise);
        }
        if observer.observe(LinearInput::AttnOutput, output.weight.cols(), attended).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[output], attended, coded, &mut [projected])?;
        Ok(ControlFlow::Continue(()))
    }

    /// Limits, scales and normalizes values.
    pub(super) fn finish_values(&self, weights: &AttentionWeights, v: &mut [f32]) {
        let (isa, config) = (self.cpu.isa(), &self.model.config);
        if let Some(limit) = config.qkv_clip {
            clip(isa, v, limit);
        }
        if let Some(factor) = config.value_heads.and_then(|values| values.scale) {
            scale(isa, v, factor);
        }
        self.norm_heads(weights.v_norm.as_ref(), v);
    }

    /// Normalizes and limits queries and keys of tokens at `positions`, and turns them there.
    pub(super) fn place(
        &self,
        weights: &AttentionWeights,
        rope: Option<&RopeTable>,
        positions: &[usize],
        q: &mut [f32],
        k: &mut [f32],
    ) {
        let config = &self.model.config;
        let of_config = config.qkv_clip.is_some() || config.query_growth.is_some();
        if weights.q_norm.is_none() && weights.k_norm.is_none() && rope.is_none() && !of_config {
            return;
        }
        let norms_first = !matches!(config.qk_norm, Some(QkNorm::RotatedHead | QkNorm::RotatedHeadPlain));
        let with_norms = rope.is_some() || config.qk_norm != Some(QkNorm::RotatedHeadPlain);
        let isa = self.cpu.isa();
        let turn = |norm: Option<&Norm>, heads: &mut [f32], position: usize| {
            let norm = norm.filter(|_| with_norms);
            if norms_first {
                self.norm_heads(norm, heads);
            }
            if let Some(limit) = config.qkv_clip {
                clip(isa, heads, limit);
            }
            if let Some(rope) = rope {
                rope.apply(isa, heads, position);
            }
            if !norms_first {
                self.norm_heads(norm, heads);
            }
        };
        let query = |q: &mut [f32], position: usize| {
            turn(weights.q_norm.as_ref(), q, position);
            if let Some(growth) =
                config.query_growth.filter(|growth| !growth.unrotated_only || rope.is_none())
            {
                scale(isa, q, query_factor(growth, position));
            }
        };
        let widths = (weights.q.weight.rows(), weights.k.as_ref().map_or(0, |key| key.weight.rows()));
        let work = WORK * (widths.0 + widths.1);
        if k.is_empty() {
            self.cpu.for_each_rows([(q, widths.0)], work, |first, [q]| {
                let rows = positions[first..].iter().zip(q.chunks_exact_mut(widths.0));
                rows.for_each(|(position, q)| query(q, *position));
            });
            return;
        }
        self.cpu.for_each_rows([(q, widths.0), (k, widths.1)], work, |first, [q, k]| {
            let rows = q.chunks_exact_mut(widths.0).zip(k.chunks_exact_mut(widths.1));
            for (&position, (q, k)) in positions[first..].iter().zip(rows) {
                query(q, position);
                turn(weights.k_norm.as_ref(), k, position);
            }
        });
    }

    /// Normalizes rows of what an output projection reads.
    pub(super) fn norm_rows(&self, norm: &Norm, rows: &mut [f32]) {
        let (isa, width, epsilon) = (self.cpu.isa(), norm.gain.len(), self.model.config.norm.epsilon);
        self.cpu.for_each_rows([(rows, width)], WORK * width, |_, [rows]| {
            rows.chunks_exact_mut(width).for_each(|row| rms_norm_in_place(isa, row, &norm.gain, epsilon));
        });
    }

    /// Normalizes runs of as many values as the norm has gains: heads, or all heads of a token together. Or each head by gains
    /// of its own.
    pub(super) fn norm_heads(&self, norm: Option<&Norm>, heads: &mut [f32]) {
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
pub fn query_factor(growth: QueryGrowth, position: usize) -> f32 {
    let QueryGrowth { factor, original_positions, from_one, unrotated_only: _ } = growth;
    let times = (position + usize::from(from_one)) / (original_positions as usize).max(1);
    (1.0 + f64::from(factor) * libm::log1p(times as f64)) as f32
}
