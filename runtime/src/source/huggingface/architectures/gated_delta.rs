//! What the models with gated delta nets have in common: names, and fields of `config.json`.

use qsf_format::TensorKind::*;
use qsf_format::{Activation, Experts, ModelConfig, QkNorm, Recurrent, RecurrentMixer, SharedExperts};

use super::architecture::Reader;
use super::mixtures::ExpertDefaults;
use super::reader::Defaults;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{Form, NameRule, formed, rows};

/// Constants of old versions, and the layers that predict the tokens behind the next one, which nothing here runs.
pub(super) const IGNORED: &[&str] = &[".rotary_emb.inv_freq", "mtp."];

/// Attention whose queries alternate with gates, head by head.
pub(super) const GATED_ATTENTION: &[NameRule] = &[
    formed("layers.{}.self_attn.q_proj.weight", &[AttnQ, AttnGate], Form::HeadByHead),
    rows("layers.{}.self_attn.k_proj.weight", &[AttnK]),
    rows("layers.{}.self_attn.v_proj.weight", &[AttnV]),
    rows("layers.{}.self_attn.o_proj.weight", &[AttnOutput]),
];

/// The delta net without its input projections.
pub(super) const DELTA_NET: &[NameRule] = &[
    formed("layers.{}.linear_attn.conv1d.weight", &[MixerConv], Form::Filters),
    formed("layers.{}.linear_attn.A_log", &[MixerDecay], Form::MinusExp),
    rows("layers.{}.linear_attn.dt_bias", &[MixerStepBias]),
    rows("layers.{}.linear_attn.norm.weight", &[MixerNorm]),
    rows("layers.{}.linear_attn.out_proj.weight", &[MixerOutput]),
];

/// A part of this of each head is rotated.
const ROTATED: f64 = 0.25;

/// A model of gated delta nets with a layer of gated attention among them now and then. Its feed-forward is that of LLaMA.
pub(super) fn gated_delta(reader: &Reader<'_>, defaults: &Defaults) -> Result<ModelConfig> {
    let mut model = reader.llama_like_part(defaults, Some((ROTATED, "partial_rotary_factor")))?;
    reader.only("attention_bias", false)?;
    if model.activation != Activation::Silu {
        let what = "hidden_act other than silu, which the convolution would have too";
        return Err(RuntimeError::unsupported(reader.fields.path, what, "supported: silu"));
    }
    model.norm.gain_plus_one = true;
    model.qk_norm = Some(QkNorm::Head);
    let layers = delta_layers(reader, model.layers)?;
    // A model whose layers all have attention has its gates all the same.
    model.attention_gate = layers.len() < model.layers as usize;
    if !layers.is_empty() {
        let mixer = RecurrentMixer::GatedDelta {
            key_heads: reader.dimension(&["linear_num_key_heads"], 16)?,
            key_dim: reader.dimension(&["linear_key_head_dim"], 128)?,
            value_heads: reader.dimension(&["linear_num_value_heads"], 32)?,
            value_dim: reader.dimension(&["linear_value_head_dim"], 128)?,
        };
        let taps = reader.dimension(&["linear_conv_kernel_dim"], 4)?;
        model.recurrent = Some(Recurrent::new(mixer, taps, layers));
    }
    Ok(model)
}

/// The experts of such a model, with one for all tokens.
pub(super) fn with_shared_expert(
    reader: &Reader<'_>,
    layers: u32,
    defaults: ExpertDefaults,
) -> Result<Option<Experts>> {
    let Some(experts) = reader.qwen_experts(layers, defaults)? else { return Ok(None) };
    let ffn = reader.dimension(&["shared_expert_intermediate_size"], 512)?;
    Ok(Some(Experts { shared: Some(SharedExperts { ffn, gated: true }), ..experts }))
}

/// Layers without attention, by `layer_types` or by the number of layers from one with it to the next.
pub(super) fn delta_layers(reader: &Reader<'_>, layers: u32) -> Result<Vec<u32>> {
    if let Some(found) = reader.layers_of_type(layers, "linear_attention")? {
        return Ok(found);
    }
    let interval = reader.fields.u32("full_attention_interval")?.unwrap_or(4);
    if interval == 0 {
        return Err(reader.fields.wrong("full_attention_interval", "1 or more", interval));
    }
    Ok((0..layers).filter(|layer| (layer + 1) % interval != 0).collect())
}
