//! Factors of what the parts of a layer read and give.

use serde::{Deserialize, Serialize};

use super::check::positive;
use super::{ModelConfig, RecurrentMixer};

/// What parts of a layer are multiplied with, all above 0. MODEL.md says where.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Multipliers {
    /// What attention gives.
    pub attention: f32,
    /// What a recurrent mixer gives.
    pub mixer: f32,
    /// The gate of a mixer.
    pub mixer_gate: f32,
    /// The three inputs of a mixer of Mamba-2, before the convolution.
    pub mixer_inputs: [f32; 3],
    /// The steps of a mixer, without what is added to them.
    pub mixer_step: f32,
    /// The gate of the feed-forward, before its function.
    pub ffn_gate: f32,
    /// What the feed-forward gives.
    pub ffn: f32,
}

impl Multipliers {
    /// Those that change nothing.
    pub const ONES: Multipliers = Multipliers {
        attention: 1.0,
        mixer: 1.0,
        mixer_gate: 1.0,
        mixer_inputs: [1.0; 3],
        mixer_step: 1.0,
        ffn_gate: 1.0,
        ffn: 1.0,
    };
}

impl ModelConfig {
    pub(super) fn check_multipliers(&self, multipliers: &Multipliers) -> Result<(), String> {
        let &Multipliers { attention, mixer, mixer_gate, mixer_inputs, mixer_step, ffn_gate, ffn } =
            multipliers;
        for (name, factor) in [
            ("attention", attention),
            ("mixer", mixer),
            ("mixer_gate", mixer_gate),
            ("mixer_step", mixer_step),
            ("ffn_gate", ffn_gate),
            ("ffn", ffn),
        ] {
            positive(&format!("multipliers {name}"), factor)?;
        }
        mixer_inputs.iter().try_for_each(|factor| positive("multipliers mixer_inputs", *factor))?;
        let mamba2 =
            self.recurrent.as_ref().is_some_and(|r| matches!(r.mixer, RecurrentMixer::Mamba2 { .. }));
        let plain =
            self.gated_ffn && self.gate_clip.is_none() && self.experts.is_none() && self.latent.is_none();
        if mamba2 && plain {
            return Ok(());
        }
        Err("multipliers are there, which go with a recurrent mixer mamba2 and gated_ffn, and without gate_clip, experts and \
             latent only"
            .into())
    }
}
