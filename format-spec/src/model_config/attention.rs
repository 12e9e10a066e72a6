//! What attention of a layer is shaped like.

use serde::{Deserialize, Serialize};

use super::ModelConfig;
use crate::tensor_kind::{TensorId, TensorKind};

/// Attention by way of latents (MLA, arXiv 2405.04434): keys and values of all heads are made of one short vector for each
/// position, and of a part of keys that all heads share, which is what is kept of a position.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatentAttention {
    /// Width of the vector that queries are made of; absent: they are made of the residual stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_rank: Option<u32>,
    /// Width of the vector that keys and values are made of.
    pub kv_rank: u32,
    /// First values of a key, which all heads share and which are rotated.
    pub shared_dim: u32,
    /// Values of a head's value.
    pub value_dim: u32,
    /// Added to the mean square in the norms of these vectors.
    pub norm_epsilon: f32,
}

/// What attention of a layer computes with, head by head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Values of a key, as it is kept.
    pub key_dim: usize,
    /// Values of a value, as it is kept.
    pub value_dim: usize,
}

impl ModelConfig {
    /// What is kept of keys and values of `layer`, and what queries are compared with.
    pub fn attention_shape(&self, _layer: u32) -> AttentionShape {
        let heads = self.heads as usize;
        match self.latent {
            None => {
                let head_dim = self.head_dim as usize;
                AttentionShape {
                    heads,
                    kv_heads: self.kv_heads as usize,
                    key_dim: head_dim,
                    value_dim: head_dim,
                }
            }
            Some(LatentAttention { kv_rank, shared_dim, .. }) => AttentionShape {
                heads,
                kv_heads: 1,
                key_dim: shared_dim as usize + kv_rank as usize,
                value_dim: kv_rank as usize,
            },
        }
    }

    /// How many matrices of the same shape are stacked in a tensor: of experts, or of heads. `None`: it is one matrix.
    pub fn stacked(&self, id: TensorId) -> Option<u32> {
        use TensorKind::*;
        match id.kind {
            ExpertGate | ExpertUp | ExpertDown => self.experts(id.layer?).map(|experts| experts.count),
            AttnKUp | AttnVUp => Some(self.heads),
            _ => None,
        }
    }

    /// Columns of the attention output projection.
    pub fn output_cols(&self) -> usize {
        self.heads as usize * self.latent.map_or(self.head_dim, |latent| latent.value_dim) as usize
    }
}
