//! What a decoder relies on where attention is shaped in other ways.

use super::check::{positive, up_to};
use super::{
    FullAttention, LatentAttention, ModelConfig, PerLayerEmbedding, PositionConfig, QkNorm, SharedKv,
    ValueHeads,
};

impl ModelConfig {
    pub(super) fn check_full_attention(&self, full: FullAttention) -> Result<(), String> {
        up_to("full_attention kv_heads", full.kv_heads, 1 << 16)?;
        up_to("full_attention head_dim", full.head_dim, 1 << 16)?;
        if !self.heads.is_multiple_of(full.kv_heads) {
            let (heads, kv_heads) = (self.heads, full.kv_heads);
            return Err(format!(
                "heads is {heads}, expected a multiple of full_attention kv_heads = {kv_heads}"
            ));
        }
        if u64::from(self.heads) * u64::from(full.head_dim) > 1 << 24 {
            return Err(format!("heads * full_attention head_dim is beyond {}", 1 << 24));
        }
        if self.latent.is_some() || self.attention_gate || self.attention_scale.is_none() {
            return Err(
                "full_attention goes with an attention_scale, and without latent and attention_gate".into()
            );
        }
        if !matches!(self.qk_norm, None | Some(QkNorm::Head | QkNorm::RotatedHead | QkNorm::RotatedHeadPlain))
        {
            return Err("full_attention goes with qk_norm of heads only".into());
        }
        Ok(())
    }

    pub(super) fn check_value_heads(&self, values: ValueHeads) -> Result<(), String> {
        up_to("value_heads dim", values.dim, 1 << 16)?;
        values.scale.map_or(Ok(()), |scale| positive("value_heads scale", scale))?;
        if u64::from(self.heads) * u64::from(values.dim) > 1 << 24 {
            return Err(format!("heads * value_heads dim is beyond {}", 1 << 24));
        }
        let keys_are_values = self.full_attention.is_some_and(|full| full.keys_are_values);
        if self.latent.is_some() || self.attention_gate || self.value_norm || keys_are_values {
            return Err(
                "value_heads go without latent, attention_gate, value_norm and keys_are_values only".into()
            );
        }
        Ok(())
    }

    pub(super) fn check_shared_kv(&self, shared: SharedKv) -> Result<(), String> {
        shared.ffn.map_or(Ok(()), |ffn| up_to("shared_kv ffn", ffn, 1 << 24))?;
        if self.latent.is_some() || self.recurrent.is_some() || self.attention_gate {
            return Err("shared_kv goes without latent, recurrent and attention_gate".into());
        }
        if shared.layers == 0 || shared.layers >= self.layers {
            let (found, layers) = (shared.layers, self.layers);
            return Err(format!("shared_kv layers is {found}, expected 1 to below layers = {layers}"));
        }
        match (self.layers - shared.layers..self.layers).find(|&layer| self.kv_source(layer) == layer) {
            Some(layer) => Err(format!(
                "layer {layer} shares keys and values of a layer before the sharing ones, and none has {} as it has",
                if self.window(layer).is_some() { "a window" } else { "no window" }
            )),
            None => Ok(()),
        }
    }

    pub(super) fn check_per_layer_embedding(&self, of_layers: PerLayerEmbedding) -> Result<(), String> {
        up_to("per_layer_embedding width", of_layers.width, 1 << 16)?;
        up_to("per_layer_embedding vocab", of_layers.vocab, 1 << 26)?;
        if u64::from(self.layers) * u64::from(of_layers.width) > 1 << 24 {
            return Err(format!("layers * per_layer_embedding width is beyond {}", 1 << 24));
        }
        Ok(())
    }

    pub(super) fn check_latent(&self, latent: LatentAttention) -> Result<(), String> {
        let LatentAttention { q_rank, kv_rank, shared_dim, value_dim, norm_epsilon } = latent;
        q_rank.map_or(Ok(()), |rank| up_to("latent q_rank", rank, 1 << 20))?;
        up_to("latent kv_rank", kv_rank, 1 << 16)?;
        up_to("latent value_dim", value_dim, 1 << 16)?;
        if shared_dim == 0 || shared_dim >= self.head_dim {
            let most = self.head_dim;
            return Err(format!("latent shared_dim is {shared_dim}, expected 1 to below head_dim = {most}"));
        }
        for (name, width) in [("kv_rank", kv_rank + shared_dim), ("value_dim", value_dim)] {
            if u64::from(self.heads) * u64::from(width) > 1 << 24 {
                return Err(format!("heads * {name} is beyond {}", 1 << 24));
            }
        }
        if !(norm_epsilon.is_finite() && norm_epsilon >= 0.0) {
            return Err(format!(
                "latent norm_epsilon is {norm_epsilon}, expected a finite number of 0 or more"
            ));
        }
        if self.kv_heads != self.heads
            || self.qk_norm.is_some()
            || self.sliding_window.is_some()
            || self.attention_sinks
            || self.qkv_clip.is_some()
            || self.attention_gate
        {
            return Err("latent goes with kv_heads = heads, and without qk_norm, qkv_clip, attention_sinks, attention_gate and \
                        sliding_window"
                .into());
        }
        match &self.position {
            PositionConfig::Rope { dims: Some(dims), sliding_theta: None, .. } if *dims == shared_dim => {
                Ok(())
            }
            _ => Err(format!("latent goes with rotated dims that are shared_dim = {shared_dim}")),
        }
    }
}
