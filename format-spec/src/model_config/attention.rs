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

/// Attention of layers without a sliding window, where it is shaped in another way than that of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FullAttention {
    /// Key and value heads; divides `heads`.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Whether values are what keys are before their norm and rotation.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub keys_are_values: bool,
}

/// Last layers without keys and values of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedKv {
    /// How many.
    pub layers: u32,
    /// Inner width of their feed-forward; absent: as that of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ffn: Option<u32>,
}

/// Heads of values where they are not as wide as those of keys.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueHeads {
    /// Width of one.
    pub dim: u32,
    /// What values are multiplied with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f32>,
}

/// Vectors that each layer gets of a token besides the residual stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerLayerEmbedding {
    /// Width of the vector of a layer.
    pub width: u32,
    /// Tokens that have some; all others get those of token 0.
    pub vocab: u32,
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
    pub fn attention_shape(&self, layer: u32) -> AttentionShape {
        let heads = self.heads as usize;
        if let Some(LatentAttention { kv_rank, shared_dim, .. }) = self.latent {
            let (kv_rank, shared_dim) = (kv_rank as usize, shared_dim as usize);
            return AttentionShape { heads, kv_heads: 1, key_dim: shared_dim + kv_rank, value_dim: kv_rank };
        }
        let value_dim = self.value_heads.map(|values| values.dim as usize);
        let (kv_heads, head_dim) = match self.full_attention_of(layer) {
            Some(full) => (full.kv_heads as usize, full.head_dim as usize),
            None => (self.kv_heads as usize, self.head_dim as usize),
        };
        AttentionShape { heads, kv_heads, key_dim: head_dim, value_dim: value_dim.unwrap_or(head_dim) }
    }

    /// The shape of attention of `layer`, where it is that of layers without a sliding window.
    pub fn full_attention_of(&self, layer: u32) -> Option<FullAttention> {
        self.full_attention.filter(|_| self.window(layer).is_none())
    }

    /// Values of a query head of `layer`.
    pub fn query_dim(&self, layer: u32) -> usize {
        self.full_attention_of(layer).map_or(self.head_dim, |full| full.head_dim) as usize
    }

    /// Inner width of the feed-forward of `layer`.
    pub fn ffn_of(&self, layer: u32) -> u32 {
        let wider = self.shared_kv.filter(|_| self.kv_source(layer) != layer).and_then(|shared| shared.ffn);
        wider.unwrap_or(self.ffn)
    }

    /// The layer whose keys and values `layer` attends to: itself, or of those before the sharing ones the last that has a
    /// window, or none, like it.
    pub fn kv_source(&self, layer: u32) -> u32 {
        let own = self.layers.saturating_sub(self.shared_kv.map_or(0, |shared| shared.layers));
        if layer < own {
            return layer;
        }
        let windowed = self.window(layer).is_some();
        (0..own).rev().find(|&source| self.window(source).is_some() == windowed).unwrap_or(layer)
    }

    /// Whether other layers attend to keys and values of `layer`.
    pub fn is_kv_source(&self, layer: u32) -> bool {
        self.shared_kv.is_some() && (layer + 1..self.layers).any(|other| self.kv_source(other) == layer)
    }

    /// The widest of all layers.
    pub fn widest_layer(&self, width: impl Fn(u32) -> usize) -> usize {
        (0..self.layers).map(width).max().unwrap_or(0)
    }

    /// How many matrices of the same shape are stacked in a tensor: of experts, or of heads. `None`: it is one matrix.
    pub fn stacked(&self, id: TensorId) -> Option<u32> {
        use TensorKind::*;
        match id.kind {
            ExpertGate | ExpertUp | ExpertDown => self.experts(id.layer?).map(|experts| experts.count),
            AttnKUp | AttnVUp => Some(self.heads),
            StreamReturn => self.streams.map(|streams| streams.saturating_sub(1)),
            _ => None,
        }
    }

    /// Columns of the attention output projection of `layer`.
    pub fn output_cols(&self, layer: u32) -> usize {
        let value_dim = match (self.latent, self.value_heads) {
            (Some(latent), _) => latent.value_dim as usize,
            (None, Some(values)) => values.dim as usize,
            (None, None) => self.query_dim(layer),
        };
        self.heads as usize * value_dim
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_config::{NormConfig, NormKind, PositionConfig, SlidingWindow};

    /// Six layers, of which every third has no window, and heads of 8 there.
    fn model(shared: u32) -> ModelConfig {
        ModelConfig {
            layers: 6,
            hidden: 8,
            heads: 4,
            kv_heads: 2,
            head_dim: 4,
            ffn: 10,
            vocab: 9,
            max_positions: 16,
            norm: NormConfig::new(NormKind::RmsNorm, 1e-6),
            position: PositionConfig::rope(1e4, None),
            attention_scale: Some(1.0),
            sliding_window: Some(SlidingWindow { size: 4, layers: vec![0, 1, 3, 4] }),
            full_attention: Some(FullAttention { kv_heads: 1, head_dim: 8, keys_are_values: true }),
            shared_kv: (shared > 0).then_some(SharedKv { layers: shared, ffn: Some(20) }),
            ..ModelConfig::default()
        }
    }

    #[test]
    fn layers_share_with_the_last_of_their_kind_before_them() {
        let model = model(3);
        model.check().unwrap();
        let sources: Vec<u32> = (0..6).map(|layer| model.kv_source(layer)).collect();
        assert_eq!(sources, [0, 1, 2, 1, 1, 2]);
        let used: Vec<bool> = (0..6).map(|layer| model.is_kv_source(layer)).collect();
        assert_eq!(used, [false, true, true, false, false, false]);
        assert_eq!((model.ffn_of(2), model.ffn_of(3)), (10, 20));
        assert_eq!(model.attention_shape(5).key_dim, 8);
        assert_eq!((model.query_dim(0), model.output_cols(2)), (4, 32));
    }

    #[test]
    fn a_layer_without_a_source_is_refused() {
        for shared in [4, 5, 6] {
            let message = model(shared).check().unwrap_err();
            assert!(
                message.contains("shared_kv layers") || message.contains("none has no window"),
                "{message}"
            );
        }
        assert!(model(0).check().is_ok());
    }

    #[test]
    fn latents_that_do_not_fit_the_heads_are_refused() {
        let latent =
            LatentAttention { q_rank: None, kv_rank: 6, shared_dim: 2, value_dim: 3, norm_epsilon: 1e-6 };
        let position = |dims| PositionConfig::Rope {
            theta: 1e4,
            scaling: None,
            dims,
            sliding_theta: None,
            unrotated_layers: Vec::new(),
        };
        let sound = ModelConfig {
            kv_heads: 4,
            position: position(Some(2)),
            sliding_window: None,
            full_attention: None,
            latent: Some(latent),
            ..model(0)
        };
        sound.check().unwrap();
        assert_eq!(sound.attention_shape(0).key_dim, 8);
        assert_eq!(sound.output_cols(0), 12);
        for wrong in [
            ModelConfig { kv_heads: 2, ..sound.clone() },
            ModelConfig { position: position(None), ..sound.clone() },
            ModelConfig { latent: Some(LatentAttention { shared_dim: 4, ..latent }), ..sound.clone() },
            ModelConfig { latent: Some(LatentAttention { kv_rank: 0, ..latent }), ..sound.clone() },
            ModelConfig { latent: Some(LatentAttention { norm_epsilon: f32::NAN, ..latent }), ..sound },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
