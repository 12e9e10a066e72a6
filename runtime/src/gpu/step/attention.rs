//! Attention of a layer.

use std::sync::Arc;

use qsf_format::{NormKind, PositionConfig, QkNorm};
use wgpu::Buffer;

use super::attend::{AttendBuffers, Attending};
use super::command::padded;
use super::multiply::Way;
use super::recorder::{Recorder, RowPart};
use crate::gpu::attention_weights::{GpuAttention, Heads};
use crate::gpu::kernels::Kernel;
use crate::gpu::wgsl::place::{HeadNorm, Place};
use crate::gpu::wgsl::pointwise;
use crate::runner::Sequence;

/// Rows whose heads go to their places.
#[derive(Clone, Copy)]
pub(super) struct Placing<'a> {
    pub rows: &'a Arc<Buffer>,
    /// Values from one row to the next.
    pub row: usize,
    pub heads: Heads,
    /// Where gains of queries are, and of keys.
    pub q_gain: u32,
    pub k_gain: u32,
}

impl Recorder<'_> {
    /// What attention of a layer adds.
    pub(super) fn attention(&mut self, tokens: usize, index: usize, attention: &GpuAttention) {
        if let (Some(config), Some(latent)) = (self.model.config.latent, &attention.latent) {
            return self.latent_attention(tokens, index, attention, (config, latent));
        }
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let (hidden, row) = (config.hidden as usize, attention.row());
        let heads = Heads::of(config, index as u32, attention);
        let mut way = Way {
            input: &buffers.normed,
            input_stride: padded(hidden),
            output: &buffers.qkv,
            output_stride: row,
            first: 0,
        };
        for linear in &attention.qkv {
            self.linear(linear, tokens, &way);
            way.first += linear.rows() as usize;
        }
        if config.qk_norm == Some(QkNorm::Projection) {
            let (q_rows, kv_rows) = (config.q_rows(), config.kv_rows());
            for (width, first, gain) in [(q_rows, 0, attention.q_norm), (kv_rows, q_rows, attention.k_norm)] {
                let Some(gain) = gain else { continue };
                let part = RowPart { width, stride: row, first };
                self.norm_in_place(tokens, NormKind::RmsNorm, &buffers.qkv, part, gain);
            }
        }
        self.place(tokens, index, attention, heads);
        let columns = config.output_cols(index as u32);
        let (attended, stride) = (buffers.attended.of(columns), padded(columns));
        let attending = Attending {
            heads: heads.heads,
            kv_heads: heads.kv_heads,
            key_dim: heads.key_dim,
            value_dim: heads.value_dim,
            tokens,
            position: self.state.position,
            context: self.state.context(),
            window: config.window(index as u32).map(|window| window as usize),
            in_chunks: config.window_chunks,
            scale: config.attention_scale.unwrap_or(1.0 / (config.head_dim as f32).sqrt()),
            softcap: config.attention_softcap,
            slopes: self.model.slopes,
            sinks: attention.sinks,
            row,
            stride,
            head_stride: heads.value_dim,
        };
        let at = AttendBuffers {
            qkv: &buffers.qkv,
            vectors: &self.model.vectors,
            parts: &buffers.parts,
            attended,
        };
        self.commands.extend(attending.commands(&buffers.caches[index], at));
        if let Some(gates) = attention.gates {
            self.push(
                Kernel::Gate,
                &[&buffers.qkv, attended],
                &[columns as u32, stride as u32, row as u32, gates as u32],
                (columns.div_ceil(pointwise::THREADS) as u32, tokens as u32, 1),
            );
        }
        if let Some(gain) = attention.sub_norm {
            let part = RowPart { width: columns, stride, first: 0 };
            self.norm_in_place(tokens, NormKind::RmsNorm, attended, part, gain);
        }
        self.attention_output(tokens, attention, columns);
    }

    /// The output projection, of as many values of a token.
    pub(super) fn attention_output(&mut self, tokens: usize, attention: &GpuAttention, columns: usize) {
        let buffers = &self.state.buffers;
        let way = Way {
            input: buffers.attended.of(columns),
            input_stride: padded(columns),
            output: &buffers.projected,
            output_stride: self.model.config.hidden as usize,
            first: 0,
        };
        self.linear(&attention.output, tokens, &way);
    }

    /// Queries, keys and values to their places.
    fn place(&mut self, tokens: usize, index: usize, attention: &GpuAttention, heads: Heads) {
        let config = &self.model.config;
        let (rotated, _) = self.rotation(index as u32);
        let norm = match config.qk_norm {
            None | Some(QkNorm::Projection) => None,
            Some(QkNorm::Head) => Some(HeadNorm::Head),
            Some(QkNorm::RotatedHead) => Some(HeadNorm::RotatedHead),
            // Of layers with rotation only.
            Some(QkNorm::RotatedHeadPlain) => (rotated > 0).then_some(HeadNorm::RotatedHeadPlain),
            Some(QkNorm::HeadsApart) => Some(HeadNorm::HeadsApart),
        };
        let growth = config.query_growth.filter(|growth| !growth.unrotated_only || rotated == 0);
        let place = Place {
            rotated,
            norm,
            value_norm: config.value_norm,
            clip: config.qkv_clip.is_some(),
            value_scale: config.value_heads.is_some_and(|values| values.scale.is_some()),
            growth: growth.map(|growth| usize::from(growth.from_one)),
            ..Place::plain(heads.key_dim, self.state.buffers.caches[index].scales.is_some())
        };
        let Heads { heads: of_queries, kv_heads, key_dim, value_dim, .. } = heads;
        let placing = Placing {
            rows: &self.state.buffers.qkv,
            row: attention.row(),
            heads,
            q_gain: attention.q_norm.unwrap_or(0),
            k_gain: attention.k_norm.unwrap_or(0),
        };
        if !attention.has_keys {
            self.place_heads(tokens, index, placing, place, 0..of_queries);
        } else if key_dim == value_dim {
            self.place_heads(tokens, index, placing, place, 0..of_queries + 2 * kv_heads);
        } else {
            let values = Place { head_dim: value_dim, ..place };
            let keys_end = of_queries + kv_heads;
            self.place_heads(tokens, index, placing, place, 0..keys_end);
            self.place_heads(tokens, index, placing, values, keys_end..keys_end + kv_heads);
        }
    }

    /// Some of the heads of a row: of queries, then of keys, then of values.
    pub(super) fn place_heads(
        &mut self,
        tokens: usize,
        index: usize,
        placing: Placing<'_>,
        place: Place,
        some: std::ops::Range<usize>,
    ) {
        let Placing { rows, row, heads, q_gain, k_gain } = placing;
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let cache = &buffers.caches[index];
        let (_, table) = self.rotation(index as u32);
        let value_scale = config.value_heads.and_then(|values| values.scale).unwrap_or(1.0);
        let (growth, growth_positions) =
            config.query_growth.map_or((0.0, 1), |growth| (growth.factor, growth.original_positions.max(1)));
        let mut bound = vec![rows, &cache.keys, &cache.values, &self.model.vectors, &buffers.angles];
        bound.extend(cache.scales.iter().filter(|_| place.eight_bit));
        self.push(
            Kernel::Place(place),
            &bound,
            &[
                heads.heads as u32,
                heads.kv_heads as u32,
                self.state.position as u32,
                self.state.context() as u32,
                q_gain,
                k_gain,
                config.norm.epsilon.to_bits(),
                table,
                row as u32,
                heads.k_at as u32,
                heads.v_at as u32,
                some.start as u32,
                config.qkv_clip.unwrap_or(0.0).to_bits(),
                value_scale.to_bits(),
                growth.to_bits(),
                growth_positions,
            ],
            (some.len() as u32, tokens as u32, 1),
        );
    }

    /// Values of a head that are rotated in a layer, and where its angles begin.
    pub(super) fn rotation(&self, layer: u32) -> (usize, u32) {
        let config = &self.model.config;
        let PositionConfig::Rope { dims, unrotated_layers, .. } = &config.position else {
            return (0, 0);
        };
        if unrotated_layers.binary_search(&layer).is_ok() {
            return (0, 0);
        }
        let sliding = self.state.buffers.sliding_angles.filter(|_| config.window(layer).is_some());
        (dims.map_or(config.query_dim(layer), |dims| dims as usize), sliding.unwrap_or(0))
    }
}
