//! Attention by way of latents (MLA), as DeepSeek V2 introduced it: names of its tensors, and fields of its configuration.

use qsf_format::TensorKind::*;
use qsf_format::printable::quote;
use qsf_format::{LatentAttention, ModelConfig, PositionConfig};

use super::architecture::Reader;
use super::reader::Defaults;
use super::rope::{self, RopeDefaults};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{Form, NameRule, formed, rows};

/// In the norms of latents, whatever `rms_norm_eps` says.
const NORM_EPSILON: f32 = 1e-6;

/// Attention with rotation of neighbouring pairs.
pub(super) const ATTENTION_PAIRS: &[NameRule] = &of_latents(Form::RotatedLastPairs);

/// Attention with rotation of halves.
pub(super) const ATTENTION_HALVES: &[NameRule] = &of_latents(Form::RotatedLast);

const fn of_latents(form: Form) -> [NameRule; 8] {
    [
        rows("layers.{}.self_attn.q_a_proj.weight", &[AttnQDown]),
        rows("layers.{}.self_attn.q_a_layernorm.weight", &[QNorm]),
        formed("layers.{}.self_attn.q_b_proj.weight", &[AttnQ], form),
        formed("layers.{}.self_attn.q_proj.weight", &[AttnQ], form),
        formed("layers.{}.self_attn.kv_a_proj_with_mqa.weight", &[AttnKvDown], form),
        rows("layers.{}.self_attn.kv_a_layernorm.weight", &[KNorm]),
        formed("layers.{}.self_attn.kv_b_proj.weight", &[AttnKUp, AttnVUp], Form::KeysAndValuesOfLatents),
        rows("layers.{}.self_attn.o_proj.weight", &[AttnOutput]),
    ]
}

/// What a configuration class takes for the fields that are not there.
pub(super) struct Latent {
    pub q_rank: Option<u32>,
    pub kv_rank: u32,
    pub unrotated: u32,
    pub rotated: u32,
    /// `None`: `hidden / heads`.
    pub value_dim: Option<u32>,
    /// Whether the width of a head counts what is not rotated, and `partial_rotary_factor` says what is.
    pub whole_heads: bool,
}

impl Reader<'_> {
    /// A model with the field names of DeepSeek.
    pub(super) fn with_latents(&self, defaults: &Defaults, latent: &Latent) -> Result<ModelConfig> {
        let fields = self.fields;
        self.only("attention_bias", false)?;
        let unrotated = self.dimension(&["qk_nope_head_dim"], latent.unrotated)?;
        let rotated = self.dimension(&["qk_rope_head_dim"], latent.rotated)?;
        let head_dim = unrotated.saturating_add(rotated);
        let heads = self.dimension(&["num_attention_heads"], defaults.heads)?;
        let positions = fields.u32("max_position_embeddings")?.unwrap_or(defaults.max_positions);
        let part = (f64::from(rotated) / f64::from(head_dim.max(1)), "partial_rotary_factor");
        let width = if latent.whole_heads { head_dim } else { rotated };
        let rotation = RopeDefaults {
            part: latent.whole_heads.then_some(part),
            ..RopeDefaults::new(defaults.theta, width, positions)
        };
        let mut rope = rope::positions(fields, &rotation)?;
        if let PositionConfig::Rope { dims, .. } = &mut rope.position {
            *dims = Some(dims.unwrap_or(rotated));
        }
        let mut model = self.llama_of(defaults, (heads, heads, head_dim), rope)?;
        let value_dim = match fields.u32("v_head_dim")?.or(latent.value_dim) {
            Some(width) => width,
            None => self.head_dim("hidden_size", model.hidden, "num_attention_heads", heads)?,
        };
        // null means that there is none; where the field is not there, the class decides.
        let has_rank = fields.map.contains_key("q_lora_rank");
        let q_rank = if has_rank { fields.u32("q_lora_rank")? } else { latent.q_rank };
        model.latent = Some(LatentAttention {
            q_rank,
            kv_rank: self.dimension(&["kv_lora_rank"], latent.kv_rank)?,
            shared_dim: rotated,
            value_dim,
            norm_epsilon: NORM_EPSILON,
        });
        model.attention_scale = self.scale_of_yarn(head_dim)?;
        Ok(model)
    }

    /// The usual factor of scores times the square of YaRN's, where `mscale_all_dim` asks for that.
    fn scale_of_yarn(&self, head_dim: u32) -> Result<Option<f32>> {
        for (name, within) in [("rope_parameters", "rope_parameters."), ("rope_scaling", "rope_scaling.")] {
            let Some(rope) = self.fields.object(name, within)? else { continue };
            let kind = match rope.str("rope_type")? {
                Some(kind) => Some(kind),
                None => rope.str("type")?,
            };
            let all = rope.f64("mscale_all_dim")?.filter(|all| *all != 0.0);
            if let (Some(all), true) = (all, kind.is_some_and(|kind| kind != "default")) {
                let factor = rope.f64("factor")?.unwrap_or(1.0);
                let mscale = if factor <= 1.0 { 1.0 } else { 0.1 * all * factor.ln() + 1.0 };
                return Ok(Some((mscale * mscale / f64::from(head_dim).sqrt()) as f32));
            }
        }
        Ok(None)
    }

    /// Refuses a text that would change what the model computes.
    pub(super) fn only_str(&self, name: &str, supported: &str) -> Result<()> {
        match self.fields.str(name)? {
            Some(value) if value != supported => {
                let what = format!("{name} {}", quote(value));
                Err(RuntimeError::unsupported(self.fields.path, what, format!("only {supported} is")))
            }
            _ => Ok(()),
        }
    }
}
