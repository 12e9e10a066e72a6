//! Attention by way of latents, as the CPU computes it (`runtime/src/decoder/latent.rs`): queries are turned to latents, and what attention
//! gives of latents is turned to values. Nothing is made of the positions that are kept.

use std::sync::Arc;

use qsf_format::{LatentAttention, NormKind};
use wgpu::Buffer;

use super::attend::{AttendBuffers, Attending};
use super::attention::Placing;
use super::command::padded;
use super::multiply::{FEW, Way, shape};
use super::recorder::{Recorder, RowPart};
use crate::gpu::attention_weights::{GpuAttention, Heads};
use crate::gpu::experts::GpuStack;
use crate::gpu::kernels::Kernel;
use crate::gpu::latent::GpuLatent;
use crate::gpu::wgsl::mat_vec::{Inputs, MAX_GROUPS, MatVec, Output};
use crate::gpu::wgsl::place::Place;
use crate::gpu::wgsl::pointwise;
use crate::runner::Sequence;

/// Where matrices of heads write: values from one token to the next, from one head to the next, and where the first are.
#[derive(Clone, Copy)]
struct HeadsOut<'a> {
    output: &'a Arc<Buffer>,
    token: usize,
    head: usize,
    first: usize,
}

impl Recorder<'_> {
    /// What attention of a layer adds.
    pub(super) fn latent_attention(
        &mut self,
        tokens: usize,
        index: usize,
        attention: &GpuAttention,
        (config, latent): (LatentAttention, &GpuLatent),
    ) {
        let (model, buffers) = (&self.model.config, &self.state.buffers);
        let (heads, head_dim) = (model.heads as usize, model.head_dim as usize);
        let (shared, rank) = (config.shared_dim as usize, config.kv_rank as usize);
        let (q_rows, key_dim, row) = (heads * head_dim, shared + rank, attention.row());
        self.query_and_latent(tokens, attention, (config, latent), row);
        let part = RowPart { width: rank, stride: row, first: q_rows + shared };
        self.norm_latents(tokens, &buffers.qkv, part, attention.k_norm, config);

        let (rotated, _) = self.rotation(index as u32);
        let eight_bit = buffers.caches[index].scales.is_some();
        let growth = model.query_growth.filter(|growth| !growth.unrotated_only || rotated == 0);
        let queries = Place {
            key_dim,
            rotated,
            growth: growth.map(|growth| usize::from(growth.from_one)),
            ..Place::plain(head_dim, false)
        };
        let keys = Place { rotated, ..Place::plain(key_dim, eight_bit) };
        let values = Place { head_dim: rank, ..Place::plain(key_dim, eight_bit) };
        let of_row =
            Heads { heads, kv_heads: 1, key_dim, value_dim: rank, k_at: q_rows, v_at: q_rows + shared };
        let placing = Placing { rows: &buffers.qkv, row, heads: of_row, q_gain: 0, k_gain: 0 };
        self.place_heads(tokens, index, placing, queries, 0..heads);
        self.place_heads(tokens, index, placing, keys, heads..heads + 1);
        self.place_heads(tokens, index, placing, values, heads + 1..heads + 2);

        let of_step = &buffers.by_latents;
        let rest = head_dim - shared;
        self.push(
            Kernel::SplitQueries,
            &[&buffers.qkv, &of_step.queries, of_step.rest.of(rest)],
            &[row, head_dim, shared, key_dim, padded(rest)].map(|number| number as u32),
            (heads as u32, tokens as u32, 1),
        );
        let out = HeadsOut { output: &of_step.queries, token: heads * key_dim, head: key_dim, first: shared };
        self.heads_apart(tokens, &latent.k_up, (of_step.rest.of(rest), padded(rest)), out);
        if eight_bit {
            // Rotated as keys are.
            let placing = Placing { rows: &of_step.queries, row: heads * key_dim, ..placing };
            self.place_heads(tokens, index, placing, Place::plain(key_dim, true), 0..heads);
        }
        let seen = of_step.seen.of(rank);
        let attending = Attending {
            heads,
            kv_heads: 1,
            key_dim,
            value_dim: rank,
            tokens,
            position: self.state.position,
            context: self.state.context(),
            window: None,
            in_chunks: false,
            scale: model.attention_scale.unwrap_or(1.0 / (head_dim as f32).sqrt()),
            softcap: model.attention_softcap,
            slopes: self.model.slopes,
            sinks: None,
            row: heads * key_dim,
            stride: heads * padded(rank),
            head_stride: padded(rank),
        };
        let at = AttendBuffers {
            qkv: &of_step.queries,
            vectors: &self.model.vectors,
            parts: &buffers.parts,
            attended: seen,
        };
        self.commands.extend(attending.commands(&buffers.caches[index], at));
        let columns = model.output_cols(index as u32);
        let (attended, stride) = (buffers.attended.of(columns), padded(columns));
        let out = HeadsOut { output: attended, token: stride, head: config.value_dim as usize, first: 0 };
        self.heads_apart(tokens, &latent.v_up, (seen, padded(rank)), out);
        self.attention_output(tokens, attention, columns);
    }

    /// Queries, and what is kept of positions behind them.
    fn query_and_latent(
        &mut self,
        tokens: usize,
        attention: &GpuAttention,
        (config, latent): (LatentAttention, &GpuLatent),
        row: usize,
    ) {
        let (model, buffers) = (&self.model.config, &self.state.buffers);
        let mut way = Way {
            input: &buffers.normed,
            input_stride: padded(model.hidden as usize),
            output: &buffers.qkv,
            output_stride: row,
            first: 0,
        };
        if let Some([down, up]) = &latent.queries {
            let width = down.rows() as usize;
            let (of_queries, stride) = (buffers.by_latents.q_latent.of(width), padded(width));
            let to_latents = Way { output: of_queries, output_stride: stride, ..way };
            self.linear(down, tokens, &to_latents);
            let part = RowPart { width, stride, first: 0 };
            self.norm_latents(tokens, of_queries, part, attention.q_norm, config);
            self.linear(up, tokens, &Way { input: of_queries, input_stride: stride, ..way });
            way.first = up.rows() as usize;
        }
        for linear in &attention.qkv {
            self.linear(linear, tokens, &way);
            way.first += linear.rows() as usize;
        }
    }

    fn norm_latents(
        &mut self,
        tokens: usize,
        rows: &Arc<Buffer>,
        part: RowPart,
        gain: Option<u32>,
        config: LatentAttention,
    ) {
        if let Some(gain) = gain {
            self.norm_parts(tokens, 1, NormKind::RmsNorm, rows, part, (gain, config.norm_epsilon));
        }
    }

    /// A matrix for each head, over the inputs of each token and head, as many tokens at a time as other matrices take without matrix units.
    fn heads_apart(
        &mut self,
        tokens: usize,
        matrices: &GpuStack,
        (input, input_stride): (&Arc<Buffer>, usize),
        out: HeadsOut<'_>,
    ) {
        let GpuStack { matrix, pieces: _, places: _, bias: _, update: _ } = matrices;
        let heads = self.model.config.heads as usize;
        let mut first = 0;
        while first < tokens {
            let few = if tokens - first >= FEW { FEW } else { 1 };
            // A dimension of a dispatch has few workgroups.
            let tiles = ((tokens - first) / few).min((MAX_GROUPS / heads).max(1));
            let (kernel, groups) = shape(self.abilities, matrix, matrix.rows, few, Output::Store);
            let kernel = MatVec { experts: Some(Inputs::EachHead), ..kernel };
            let job = [
                matrix.at,
                matrix.at + matrix.words(matrix.rows),
                matrix.superblocks(),
                matrix.rows,
                (first * heads * input_stride / 4) as u32,
                (heads * input_stride / 4) as u32,
                out.token as u32,
                (first * out.token + out.first) as u32,
                0,
                matrix.words(matrix.rows),
                heads as u32,
                (input_stride / 4) as u32,
                out.head as u32,
                0,
                0,
            ];
            let buffers = [&matrix.buffer, input, out.output, &self.model.vectors];
            self.push(Kernel::MatVec(kernel), &buffers, &job, (groups.0, groups.1, (tiles * heads) as u32));
            first += few * tiles;
        }
        let Some(outliers) = &matrix.outliers else { return };
        let job = [
            matrix.rows,
            input_stride as u32,
            out.token as u32,
            out.first as u32,
            0,
            outliers.starts,
            outliers.weights,
            heads as u32,
            out.head as u32,
        ];
        let bound = [input, out.output, &outliers.places, &self.model.vectors];
        let groups = (matrix.rows.div_ceil(pointwise::THREADS as u32), heads as u32, tokens as u32);
        self.push(Kernel::Outliers(Some(Inputs::EachHead)), &bound, &job, groups);
    }
}
