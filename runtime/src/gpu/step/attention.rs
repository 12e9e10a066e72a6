//! Attention of a layer.

use qsf_format::{NormKind, PositionConfig, QkNorm};

use super::attend::{AttendBuffers, Attending};
use super::command::padded;
use super::multiply::Way;
use super::recorder::{Recorder, RowPart};
use crate::gpu::kernels::Kernel;
use crate::gpu::model::GpuAttention;
use crate::gpu::wgsl::place::Place;
use crate::runner::Sequence;

impl Recorder<'_> {
    pub(super) fn attention(&mut self, tokens: usize, index: usize, weights: &GpuAttention) {
        let (config, buffers) = (&self.model.config, &self.state.buffers);
        let (q_rows, kv_rows) = (config.q_rows(), config.kv_rows());
        let (hidden, head_dim) = (config.hidden as usize, config.head_dim as usize);
        let row = q_rows + 2 * kv_rows;
        let mut way = Way {
            input: &buffers.normed,
            input_stride: padded(hidden),
            output: &buffers.qkv,
            output_stride: row,
            first: 0,
        };
        for linear in &weights.qkv {
            self.linear(linear, tokens, &way);
            way.first += linear.matrix.rows as usize;
        }
        if let (Some(QkNorm::Projection), Some((q_gain, k_gain))) = (config.qk_norm, weights.qk_norm) {
            for (width, first, gain) in [(q_rows, 0, q_gain), (kv_rows, q_rows, k_gain)] {
                let part = RowPart { width, stride: row, first };
                self.norm_in_place(tokens, NormKind::RmsNorm, &buffers.qkv, part, gain);
            }
        }
        let (rotated, table) = self.rotation(index as u32);
        let cache = &buffers.caches[index];
        let norm = config.qk_norm == Some(QkNorm::Head);
        let place = Place { head_dim, rotated, norm, eight_bit: cache.scales.is_some() };
        let (q_gain, k_gain) = weights.qk_norm.unwrap_or((0, 0));
        let (position, context) = (self.state.position as u32, self.state.context() as u32);
        let mut bound = vec![&buffers.qkv, &cache.keys, &cache.values, &self.model.vectors, &buffers.angles];
        bound.extend(&cache.scales);
        self.push(
            Kernel::Place(place),
            &bound,
            &[
                config.heads,
                config.kv_heads,
                position,
                context,
                q_gain,
                k_gain,
                config.norm.epsilon.to_bits(),
                table,
            ],
            (config.heads + 2 * config.kv_heads, tokens as u32, 1),
        );
        let attending = Attending {
            heads: config.heads as usize,
            kv_heads: config.kv_heads as usize,
            head_dim,
            tokens,
            position: self.state.position,
            context: self.state.context(),
            window: config.window(index as u32).map(|window| window as usize),
            scale: config.attention_scale.unwrap_or(1.0 / (head_dim as f32).sqrt()),
            softcap: config.attention_softcap,
            slopes: self.model.slopes,
            stride: padded(q_rows),
        };
        let at = AttendBuffers {
            qkv: &buffers.qkv,
            vectors: &self.model.vectors,
            parts: &buffers.parts,
            attended: &buffers.attended,
        };
        self.commands.extend(attending.commands(cache, at));
        let way = Way {
            input: &buffers.attended,
            input_stride: padded(q_rows),
            output: &buffers.projected,
            output_stride: hidden,
            first: 0,
        };
        self.linear(&weights.output, tokens, &way);
    }

    /// Values of a head that are rotated in a layer, and where its angles begin.
    fn rotation(&self, layer: u32) -> (usize, u32) {
        let config = &self.model.config;
        let PositionConfig::Rope { dims, sliding_theta, unrotated_layers, .. } = &config.position else {
            return (0, 0);
        };
        if unrotated_layers.binary_search(&layer).is_ok() {
            return (0, 0);
        }
        let sliding = config.window(layer).is_some() && sliding_theta.is_some();
        let table = if sliding { self.state.buffers.sliding_angles } else { 0 };
        (dims.unwrap_or(config.head_dim) as usize, table)
    }
}
