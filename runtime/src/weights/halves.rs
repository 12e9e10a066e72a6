//! A layer as two, one behind the other: what brings tokens together, and the feed-forward.

use qsf_format::{ModelConfig, Residual};

use super::LayerWeights;

impl LayerWeights {
    /// Layers that do one after the other what this one does: the mixer and the feed-forward. The layer alone where it is only one of
    /// these, or where the two read the same, or share more than the residual stream.
    pub fn in_halves(mut self, config: &ModelConfig) -> Vec<LayerWeights> {
        let shares = self.laurel.is_some() || self.streams.is_some() || config.shared_kv.is_some();
        if shares || config.residual != Residual::Sequential || self.ffn.is_none() || self.mixer.is_none() {
            return vec![self];
        }
        let mixer = LayerWeights {
            attn_norm: self.attn_norm.take(),
            mixer: self.mixer.take(),
            post_attn_norm: self.post_attn_norm.take(),
            ffn_norm: None,
            ffn: None,
            post_ffn_norm: None,
            laurel: None,
            streams: None,
            per_layer: None,
            scale: None,
        };
        vec![mixer, self]
    }
}
