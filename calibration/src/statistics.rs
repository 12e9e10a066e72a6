//! The statistics of a whole model.

use qsf_format::{TensorId, TensorKind};

use crate::layer_stats::LayerStats;

/// Share of the mean that every column of a tied embedding gets on top of its importance as a head: as an embedding, all
/// of its columns matter alike.
const EMBEDDING_SHARE: f64 = 0.3;

/// Statistics of every layer and of the head.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    tokens: u64,
    layers: Vec<LayerStats>,
}

impl Statistics {
    /// Statistics of `tokens` tokens: layers and the head.
    pub fn new(tokens: u64, layers: Vec<LayerStats>) -> Statistics {
        Statistics { tokens, layers }
    }

    /// Tokens that went through the model.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// All layers, and the head.
    pub fn layers(&self) -> &[LayerStats] {
        &self.layers
    }

    /// One layer; `None`: the head.
    pub fn layer(&self, layer: Option<u32>) -> Option<&LayerStats> {
        self.layers.iter().find(|stats| stats.layer == layer)
    }

    /// Weight of every column of a tensor in a quantizer's error: the mean square of its input, of all experts together where
    /// there are some. `None` for tensors that multiply nothing, or inputs that were never seen.
    pub fn importance(&self, id: TensorId, tied_head: bool) -> Option<Vec<f32>> {
        let embedding = id.kind == TensorKind::TokenEmbedding;
        if embedding && !tied_head || id.kind == TensorKind::Router {
            return None;
        }
        let squares = self.layer(id.layer)?.moments(id.kind, None)?.mean_square();
        let mean = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
        let base = if embedding { EMBEDDING_SHARE * mean } else { 0.0 };
        Some(squares.iter().map(|square| (square + base) as f32).collect())
    }
}
