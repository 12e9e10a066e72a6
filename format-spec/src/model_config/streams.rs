//! Residual streams beside each other, of which one goes through the layers (AltUp, arXiv 2301.13310), and what comes with them:
//! residuals of low rank beside attention (LAuReL, arXiv 2411.07501), and gates of which most are 0.

use super::check::up_to;
use super::{ModelConfig, NormKind, Residual};

/// Most streams of a model: each has a factor for each.
const MAX_STREAMS: u32 = 64;

impl ModelConfig {
    /// Values of all residual streams of a token together.
    pub fn stream_width(&self) -> usize {
        self.streams.unwrap_or(1) as usize * self.hidden as usize
    }

    /// Which part of the gates of `layer` is made 0; `None`: none is.
    pub fn gate_sparsity_of(&self, layer: u32) -> Option<f32> {
        self.gate_sparsity.get(layer as usize).copied().filter(|sparsity| *sparsity > 0.0)
    }

    /// What keeps tokens from leaving the model before its last layer: a state, or streams, that would miss them.
    pub fn never_left_early(&self) -> Option<&'static str> {
        match (&self.recurrent, self.streams) {
            (Some(_), _) => Some("recurrent layers"),
            (None, Some(_)) => Some("several residual streams"),
            (None, None) => None,
        }
    }

    pub(super) fn check_streams(&self, streams: u32) -> Result<(), String> {
        if streams < 2 {
            return Err(format!("streams is {streams}, expected 2 to {MAX_STREAMS}"));
        }
        up_to("streams", streams, MAX_STREAMS)?;
        if u64::from(streams) * u64::from(self.hidden) > 1 << 24 {
            return Err(format!("streams * hidden is beyond {}", 1 << 24));
        }
        let sound = self.per_layer_embedding.is_some()
            && self.residual == Residual::Sequential
            && self.norm.kind == NormKind::RmsNorm;
        if !sound || self.half_layers.is_some() || self.layer_scale {
            return Err("streams go with per_layer_embedding, residual sequential and norm kind rms_norm, and without \
                        half_layers and layer_scale"
                .into());
        }
        Ok(())
    }

    pub(super) fn check_laurel(&self, rank: u32) -> Result<(), String> {
        up_to("laurel", rank, 1 << 16)?;
        if self.residual != Residual::Sequential || self.half_layers.is_some() {
            return Err("laurel goes with residual sequential, and without half_layers".into());
        }
        Ok(())
    }

    pub(super) fn check_gate_sparsity(&self, of_layers: &[f32]) -> Result<(), String> {
        if of_layers.is_empty() {
            return Ok(());
        }
        if of_layers.len() != self.layers as usize {
            let (found, layers) = (of_layers.len(), self.layers);
            return Err(format!(
                "gate_sparsity has {found} numbers, expected one for each of {layers} layers"
            ));
        }
        if let Some(sparsity) = of_layers.iter().find(|sparsity| !(0.0..1.0).contains(*sparsity)) {
            return Err(format!("gate_sparsity holds {sparsity}, expected 0 to below 1"));
        }
        if !self.gated_ffn || self.experts.is_some() || self.multipliers.is_some() || self.gate_clip.is_some()
        {
            return Err(
                "gate_sparsity goes with gated_ffn, and without experts, multipliers and gate_clip".into()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_config::{NormConfig, PerLayerEmbedding, PositionConfig};

    fn model() -> ModelConfig {
        ModelConfig {
            layers: 3,
            hidden: 8,
            heads: 4,
            kv_heads: 2,
            head_dim: 4,
            ffn: 10,
            vocab: 9,
            max_positions: 16,
            norm: NormConfig::new(NormKind::RmsNorm, 1e-6),
            position: PositionConfig::rope(1e4, None),
            gated_ffn: true,
            per_layer_embedding: Some(PerLayerEmbedding { width: 2, vocab: 9 }),
            streams: Some(3),
            laurel: Some(5),
            gate_sparsity: vec![0.95, 0.0, 0.5],
            ..ModelConfig::default()
        }
    }

    #[test]
    fn streams_are_counted_and_a_sparsity_of_0_is_none() {
        let model = model();
        model.check().unwrap();
        assert_eq!(model.stream_width(), 24);
        let sparsities = [0, 1, 2, 3].map(|layer| model.gate_sparsity_of(layer));
        assert_eq!(sparsities, [Some(0.95), None, Some(0.5), None]);
        assert_eq!(ModelConfig { streams: None, ..model }.stream_width(), 8);
    }

    #[test]
    fn what_does_not_go_with_streams_is_refused_by_name() {
        for (wrong, name) in [
            (ModelConfig { streams: Some(1), ..model() }, "streams is 1"),
            (ModelConfig { streams: Some(65), ..model() }, "streams"),
            (ModelConfig { per_layer_embedding: None, ..model() }, "per_layer_embedding"),
            (ModelConfig { layer_scale: true, ..model() }, "layer_scale"),
            (ModelConfig { residual: Residual::Parallel, ..model() }, "streams"),
            (ModelConfig { laurel: Some(0), ..model() }, "laurel"),
            (ModelConfig { gate_sparsity: vec![0.5; 2], ..model() }, "2 numbers"),
            (ModelConfig { gate_sparsity: vec![0.5, 1.0, 0.0], ..model() }, "holds 1"),
            (ModelConfig { gate_sparsity: vec![0.5, f32::NAN, 0.0], ..model() }, "NaN"),
            (ModelConfig { gated_ffn: false, ..model() }, "gated_ffn"),
        ] {
            let message = wrong.check().unwrap_err();
            assert!(message.contains(name), "{message}");
        }
    }
}
