//! Layers that are one of the two parts of others.

use serde::{Deserialize, Serialize};

use super::{ModelConfig, NormPlacement, Residual};

/// Layers of which only one part is there, with its norm. MODEL.md section 3 says how they run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HalfLayers {
    /// Layers without a feed-forward, ascending.
    pub mixer: Vec<u32>,
    /// Layers without attention and without a recurrence, ascending.
    pub feed_forward: Vec<u32>,
}

impl ModelConfig {
    pub(super) fn check_half_layers(&self, halves: &HalfLayers) -> Result<(), String> {
        self.check_layers("half_layers mixer", &halves.mixer)?;
        self.check_layers("half_layers feed_forward", &halves.feed_forward)?;
        if halves.mixer.is_empty() && halves.feed_forward.is_empty() {
            return Err("half_layers are none, expected at least one".into());
        }
        if let Some(both) = halves.mixer.iter().find(|layer| halves.feed_forward.binary_search(layer).is_ok())
        {
            return Err(format!("half_layers: layer {both} is in both lists, expected in one"));
        }
        if let Some(layer) = halves.feed_forward.iter().find(|&&layer| self.recurrent(layer).is_some()) {
            return Err(format!(
                "recurrent layers hold layer {layer}, which half_layers say to have no mixer"
            ));
        }
        if self.residual != Residual::Sequential || self.norm.placement != NormPlacement::Pre {
            return Err(
                "half_layers are there, which go with residual sequential and norm placement pre only".into(),
            );
        }
        if self.shared_kv.is_some() || self.per_layer_embedding.is_some() || self.layer_scale {
            return Err(
                "half_layers are there, which go without shared_kv, per_layer_embedding and layer_scale"
                    .into(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PerLayerEmbedding, PositionConfig, Recurrent, RecurrentMixer};
    use super::*;

    fn model() -> ModelConfig {
        let recurrent = Recurrent::new(RecurrentMixer::ShortConv {}, 3, vec![0]);
        ModelConfig {
            layers: 3,
            hidden: 8,
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            ffn: 12,
            vocab: 10,
            max_positions: 16,
            position: PositionConfig::unrotated(3),
            recurrent: Some(recurrent),
            half_layers: Some(HalfLayers { mixer: vec![0], feed_forward: vec![2] }),
            ..ModelConfig::default()
        }
    }

    #[test]
    fn layers_have_the_parts_that_are_left() {
        let model = model();
        assert_eq!(model.check(), Ok(()));
        let parts =
            |layer| (model.has_mixer(layer), model.has_attention(layer), model.has_feed_forward(layer));
        assert_eq!([0, 1, 2].map(parts), [(true, false, false), (true, true, true), (false, false, true)]);
    }

    #[test]
    fn a_layer_of_no_part_or_of_two_meanings_is_refused_and_so_is_what_needs_both_parts() {
        let with = |mixer: &[u32], feed_forward: &[u32]| {
            let halves = HalfLayers { mixer: mixer.to_vec(), feed_forward: feed_forward.to_vec() };
            ModelConfig { half_layers: Some(halves), ..model() }
        };
        let post = NormPlacement::Post;
        for (wrong, says) in [
            (with(&[], &[]), "at least one"),
            (with(&[1, 2], &[2]), "layer 2 is in both lists"),
            (with(&[1], &[0]), "hold layer 0"),
            (with(&[2, 1], &[]), "half_layers mixer: expected ascending numbers"),
            (with(&[], &[3]), "half_layers feed_forward: expected ascending numbers below layers = 3"),
            (ModelConfig { residual: Residual::Parallel, ..model() }, "residual sequential"),
            (
                ModelConfig { norm: super::super::NormConfig { placement: post, ..model().norm }, ..model() },
                "pre",
            ),
            (ModelConfig { layer_scale: true, ..model() }, "layer_scale"),
            (
                ModelConfig {
                    per_layer_embedding: Some(PerLayerEmbedding { width: 2, vocab: 10 }),
                    ..model()
                },
                "per_layer_embedding",
            ),
        ] {
            let message = wrong.check().unwrap_err();
            assert!(message.contains(says), "{message}");
        }
    }
}
