//! Weights of attention on the device.

use qsf_format::ModelConfig;

use super::latent::GpuLatent;
use super::linears::{GpuLinear, linear, norm_gains, stack};
use super::weights::Uploader;
use crate::error::Result;
use crate::weights::{AttentionWeights, Linear};

/// Attention of a layer.
pub struct GpuAttention {
    /// Query, key, value and gate, of which each makes a part of a row, in this order; those that there are.
    pub qkv: Vec<GpuLinear>,
    /// Whether keys and values are made here, or are those of another layer.
    pub has_keys: bool,
    /// Whether there are values beside the keys; else they are what keys are before their norm and rotation.
    pub has_values: bool,
    /// Where the gates begin in a row, if there are gates.
    pub gates: Option<usize>,
    /// Gains of queries, for each head or for all of a token, as the configuration says.
    pub q_norm: Option<u32>,
    /// Gains of keys.
    pub k_norm: Option<u32>,
    /// What keys and values are made of otherwise: then `qkv` makes queries, unless they are made of latents too, and what is kept.
    pub latent: Option<GpuLatent>,
    /// Scores without values, one for each head.
    pub sinks: Option<u32>,
    /// Gains of what the output projection reads.
    pub sub_norm: Option<u32>,
    /// Output projection.
    pub output: GpuLinear,
}

impl GpuAttention {
    /// Takes attention of a layer up.
    ///
    /// # Errors
    /// When a matrix does not fit.
    pub fn upload(uploader: &mut Uploader<'_>, weights: &AttentionWeights) -> Result<GpuAttention> {
        let AttentionWeights { q, k, v, latent, gate, q_norm, k_norm, v_norm: _, sinks, sub_norm, output } =
            weights;
        let (query, kept) = match latent {
            Some(latent) => (latent.q_down.is_none().then_some(q), Some(&latent.kv_down)),
            None => (Some(q), None),
        };
        let before_gates: Vec<&Linear> =
            [query, kept, k.as_ref(), v.as_ref()].into_iter().flatten().collect();
        let width: usize = before_gates.iter().map(|linear| linear.weight.rows()).sum();
        Ok(GpuAttention {
            qkv: stack(uploader, before_gates.into_iter().chain(gate))?,
            has_keys: k.is_some(),
            has_values: v.is_some(),
            gates: gate.as_ref().map(|_| width),
            q_norm: norm_gains(uploader, q_norm),
            k_norm: norm_gains(uploader, k_norm),
            latent: match latent {
                Some(latent) => Some(GpuLatent::upload(uploader, weights, latent)?),
                None => None,
            },
            sinks: sinks.as_ref().map(|sinks| uploader.vector(sinks)),
            sub_norm: norm_gains(uploader, sub_norm),
            output: linear(uploader, output)?,
        })
    }

    /// Values of a row: of queries, keys, values and gates of a token.
    pub fn row(&self) -> usize {
        let queries = self.latent.iter().flat_map(|latent| &latent.queries).map(|[_, up]| up);
        self.qkv.iter().chain(queries).map(|linear| linear.rows() as usize).sum()
    }
}

/// Where queries, keys and values of a layer are in a row, and how wide their heads are.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    pub heads: usize,
    pub kv_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    /// Where keys begin.
    pub k_at: usize,
    /// Where values begin.
    pub v_at: usize,
}

impl Heads {
    /// Those of a layer whose row is queries, keys and values.
    pub fn of(config: &ModelConfig, layer: u32, attention: &GpuAttention) -> Heads {
        let shape = config.attention_shape(layer);
        let k_at = shape.heads * shape.key_dim;
        let v_at = if attention.has_values { k_at + shape.kv_heads * shape.key_dim } else { k_at };
        Heads {
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            key_dim: shape.key_dim,
            value_dim: shape.value_dim,
            k_at,
            v_at,
        }
    }
}
