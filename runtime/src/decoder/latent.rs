//! Attention by way of latents (MLA, arXiv 2405.04434), MODEL.md section 4.1.
//!
//! Of a position are kept what all heads share of its key, and its latent, of which keys and values would be made. Queries are
//! turned to latents instead of latents to keys, and what attention gives of latents is turned to values at last: both give what
//! keys and values would, in another order of sums, and nothing is made of the positions that are kept.

use std::cell::RefCell;
use std::ops::ControlFlow;

use qsf_format::LatentAttention;

use super::activations::CodedRows;
use super::attention::query_factor;
use super::latent_buffers::LatentBuffers;
use super::{AttentionLook, Decoder, DecoderState, InputObserver, LinearInput, Section};
use crate::error::Result;
use crate::linear::Products as _;
use crate::weights::{AttentionWeights, LatentWeights, Linear, Norm};
use qsf_cpu::{Attention, RopeTable, rms_norm_in_place, scale};

/// What normalizing, rotating and copying a value costs, in multiply-adds of matrices.
const WORK: usize = 8;

impl Decoder {
    /// [`Decoder::attention`](Decoder) of a layer with latents.
    pub(super) fn latent_attention(
        &self,
        state: &mut DecoderState,
        index: usize,
        weights: &AttentionWeights,
        (config, of_latents): (LatentAttention, &LatentWeights),
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        if self.query_and_latent(state, weights, (config, of_latents), observer)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let rope = state.rotation.of_layer(&self.model.config, index as u32);
        let places = state.caches.positions();
        self.place_latent(config, weights, rope, places, [&mut state.q, &mut state.k, &mut state.v]);
        state.profile.lap(Section::Elementwise);
        let (heads, rank) = (self.model.config.heads as usize, config.kv_rank as usize);
        let (head_dim, shared) = (self.model.config.head_dim as usize, config.shared_dim as usize);
        let tokens = state.q.len() / (heads * head_dim);
        let DecoderState { q, k, v, attended, projected, latent, coded, caches, attention, profile, .. } =
            state;
        let LatentBuffers { by_head, turned, queries, .. } = latent;
        let rest = head_dim - shared;
        let by_head = &mut by_head[..tokens * heads * rest];
        // Copying a value costs about as much as multiplying it.
        self.cpu.for_each_chunk(by_head, tokens * rest, q.len(), |head, rows| {
            for (row, q) in
                rows.chunks_exact_mut(rest).zip(q.chunks_exact(head_dim).skip(head).step_by(heads))
            {
                row.copy_from_slice(&q[shared..]);
            }
        });
        if observer.observe(LinearInput::KeyUp, rest, by_head).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.heads_apart(&of_latents.k_up, by_head, coded, turned)?;
        self.cpu.for_each_chunk(queries, heads * (shared + rank), tokens * heads * rank, |t, queries| {
            for (head, query) in queries.chunks_exact_mut(shared + rank).enumerate() {
                query[..shared].copy_from_slice(&q[(t * heads + head) * head_dim..][..shared]);
                query[shared..].copy_from_slice(&turned[(head * tokens + t) * rank..][..rank]);
            }
        });
        profile.lap(Section::Matmul);
        let parameters = |tokens| Attention {
            heads,
            window: usize::MAX,
            first: 0,
            scale: self.model.config.attention_scale.unwrap_or(1.0 / (head_dim as f32).sqrt()),
            softcap: self.model.config.attention_softcap,
            slopes: &self.slopes,
            sinks: &[],
            by_unit: self.activations.by_unit(tokens),
        };
        let seen = &mut turned[..tokens * heads * rank];
        let widths = [queries.len(), k.len(), v.len(), seen.len()].map(|all| all / tokens);
        caches.for_each(|rows, kv| {
            let [q_rows, k_rows, v_rows, out_rows] = widths.map(|width| rows.start * width..rows.end * width);
            let keys = &k[k_rows];
            kv.store(&self.cpu, index, keys, &v[v_rows]);
            let (parameters, queries) = (parameters(rows.len()), &queries[q_rows]);
            let (layer, position) = (kv.layer(index), kv.position_in(index));
            self.cpu.attend(&parameters, layer, position, queries, attention, &mut seen[out_rows]);
            observer.attended(&AttentionLook {
                layer: index,
                position,
                keys,
                cpu: &self.cpu,
                attention: parameters,
                kv: layer,
                q: queries,
            });
            kv.count_attention(&self.cpu, index, &parameters, queries);
        });
        profile.lap(Section::Attention);
        let by_head = &mut latent.by_head[..tokens * heads * rank];
        self.cpu.for_each_chunk(by_head, tokens * rank, tokens * heads * rank, |head, rows| {
            for (row, seen) in
                rows.chunks_exact_mut(rank).zip(seen.chunks_exact(rank).skip(head).step_by(heads))
            {
                row.copy_from_slice(seen);
            }
        });
        if observer.observe(LinearInput::ValueUp, rank, by_head).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.heads_apart(&of_latents.v_up, by_head, coded, &mut latent.turned)?;
        let width = config.value_dim as usize;
        let turned = &latent.turned;
        self.cpu.for_each_chunk(attended, heads * width, tokens * heads * width, |t, out| {
            for (head, out) in out.chunks_exact_mut(width).enumerate() {
                out.copy_from_slice(&turned[(head * tokens + t) * width..][..width]);
            }
        });
        if observer.observe(LinearInput::AttnOutput, weights.output.weight.cols(), attended).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[&weights.output], attended, coded, &mut [projected])?;
        Ok(ControlFlow::Continue(()))
    }

    /// Keeps what is kept of positions that are not attended from.
    pub(super) fn keep_latent(
        &self,
        state: &mut DecoderState,
        index: usize,
        weights: &AttentionWeights,
        (config, of_latents): (LatentAttention, &LatentWeights),
    ) -> Result<()> {
        let DecoderState { normed, q, k, v, coded, caches, rotation, .. } = state;
        self.linears(&[&of_latents.kv_down], normed, coded, &mut [k])?;
        // The query is that of a layer before: it goes along and is not used.
        let rope = rotation.of_layer(&self.model.config, index as u32);
        self.place_latent(config, weights, rope, caches.positions(), [&mut *q, &mut *k, &mut *v]);
        caches.first_mut().store(&self.cpu, index, k, v);
        Ok(())
    }

    /// Queries into `state.q`, and what is kept of positions into `state.k`.
    fn query_and_latent(
        &self,
        state: &mut DecoderState,
        weights: &AttentionWeights,
        (config, of_latents): (LatentAttention, &LatentWeights),
        observer: &mut dyn InputObserver,
    ) -> Result<ControlFlow<()>> {
        let DecoderState { normed, q, k, latent, coded, profile, .. } = state;
        if observer.observe(LinearInput::Attention, self.model.config.hidden as usize, normed).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let Some(q_down) = &of_latents.q_down else {
            self.linears(&[&weights.q, &of_latents.kv_down], normed, coded, &mut [q, k])?;
            profile.lap(Section::Matmul);
            return Ok(ControlFlow::Continue(()));
        };
        let of_queries = &mut latent.q_latent;
        self.linears(&[q_down, &of_latents.kv_down], normed, coded, &mut [of_queries, k])?;
        let width = q_down.weight.rows();
        self.cpu.for_each_rows([(&mut **of_queries, width)], WORK * width, |_, [rows]| {
            self.norm_latents(config, weights.q_norm.as_ref(), rows);
        });
        if observer.observe(LinearInput::QueryLatent, width, of_queries).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.linears(&[&weights.q], of_queries, coded, &mut [q])?;
        profile.lap(Section::Matmul);
        Ok(ControlFlow::Continue(()))
    }

    /// Normalizes latents, turns queries and what heads share of keys to their `positions`, and copies latents to
    /// where values are taken from.
    fn place_latent(
        &self,
        config: LatentAttention,
        weights: &AttentionWeights,
        rope: Option<&RopeTable>,
        positions: &[usize],
        [q, k, v]: [&mut [f32]; 3],
    ) {
        let (isa, shared, rank) = (self.cpu.isa(), config.shared_dim as usize, config.kv_rank as usize);
        let widths = (self.model.config.q_rows(), shared + rank);
        let work = WORK * (widths.0 + widths.1);
        self.cpu.for_each_rows([(q, widths.0), (k, widths.1), (v, rank)], work, |first, [q, k, v]| {
            let rows = q.chunks_exact_mut(widths.0).zip(k.chunks_exact_mut(widths.1));
            for ((&position, (q, k)), v) in positions[first..].iter().zip(rows).zip(v.chunks_exact_mut(rank))
            {
                if let Some(rope) = rope {
                    rope.apply(isa, q, position);
                    rope.apply_to_one(isa, k, position);
                }
                if let Some(growth) = self.model.config.query_growth {
                    scale(isa, q, query_factor(growth, position));
                }
                self.norm_latents(config, weights.k_norm.as_ref(), &mut k[shared..]);
                v.copy_from_slice(&k[shared..]);
            }
        });
    }

    fn norm_latents(&self, config: LatentAttention, norm: Option<&Norm>, rows: &mut [f32]) {
        let Some(norm) = norm else { return };
        for row in rows.chunks_exact_mut(norm.gain.len()) {
            rms_norm_in_place(self.cpu.isa(), row, &norm.gain, config.norm_epsilon);
        }
    }

    /// A matrix for each head: `input` and `out` hold the rows of the first head, then those of the next.
    fn heads_apart(
        &self,
        heads: &[Linear],
        input: &[f32],
        coded: &mut CodedRows,
        out: &mut [f32],
    ) -> Result<()> {
        let Some(first) = heads.first() else { return Ok(()) };
        let (rows, cols) = (first.weight.rows(), first.weight.cols());
        let tokens = input.len() / (heads.len() * cols);
        let out = &mut out[..heads.len() * tokens * rows];
        if heads.iter().all(|head| head.resident().is_some()) {
            // Heads are smaller than what is worth sharing among threads, and there are many.
            self.cpu.for_each_chunk(out, tokens * rows, input.len() * rows, |head, out| {
                let (input, linear) = (&input[head * tokens * cols..][..tokens * cols], &heads[head]);
                let Some((tensor, bias)) = linear.resident() else { return };
                CODED.with_borrow_mut(|coded| {
                    let blocks = linear.weight.has_blocks();
                    let input = coded.input(&self.cpu, self.activations, input, cols, blocks);
                    self.cpu.linear(tensor, bias, &input, out);
                });
            });
            return Ok(());
        }
        let inputs = input.chunks_exact(tokens * cols);
        for ((head, input), out) in heads.iter().zip(inputs).zip(out.chunks_exact_mut(tokens * rows)) {
            self.linears(&[head], input, coded, &mut [out])?;
        }
        Ok(())
    }
}

thread_local! {
    /// Inputs of a head as kernels take them.
    static CODED: RefCell<CodedRows> = RefCell::default();
}
