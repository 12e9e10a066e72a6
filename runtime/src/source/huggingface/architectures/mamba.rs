//! What the models with layers of Mamba-2 have in common: names, and fields of `config.json`.

use qsf_format::TensorKind::*;
use qsf_format::{Activation, ModelConfig, Recurrent, RecurrentMixer, TensorKind};

use super::architecture::Reader;
use super::reader::declared;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{Form, NameRule, formed, rows};

/// A layer of Mamba-2.
pub(super) const MAMBA: &[NameRule] = &[
    rows("layers.{}.mamba.in_proj.weight", &[MixerGate, MixerIn, MixerStep]),
    formed("layers.{}.mamba.conv1d.weight", &[MixerConv], Form::Filters),
    rows("layers.{}.mamba.conv1d.bias", &[MixerConvBias]),
    formed("layers.{}.mamba.A_log", &[MixerDecay], Form::MinusExp),
    rows("layers.{}.mamba.dt_bias", &[MixerStepBias]),
    rows("layers.{}.mamba.D", &[MixerSkip]),
    rows("layers.{}.mamba.norm.weight", &[MixerNorm]),
    rows("layers.{}.mamba.out_proj.weight", &[MixerOutput]),
];

/// A layer of Mamba-2 in models whose layers call every part their mixer.
pub(super) const MAMBA_MIXER: &[NameRule] = &[
    rows("layers.{}.mixer.in_proj.weight", &[MixerGate, MixerIn, MixerStep]),
    formed("layers.{}.mixer.conv1d.weight", &[MixerConv], Form::Filters),
    rows("layers.{}.mixer.conv1d.bias", &[MixerConvBias]),
    formed("layers.{}.mixer.A_log", &[MixerDecay], Form::MinusExp),
    rows("layers.{}.mixer.dt_bias", &[MixerStepBias]),
    rows("layers.{}.mixer.D", &[MixerSkip]),
    rows("layers.{}.mixer.norm.weight", &[MixerNorm]),
    rows("layers.{}.mixer.out_proj.weight", &[MixerOutput]),
];

/// Names of fields that say the numbers of Mamba-2, and what they are where they are not there.
pub(super) struct Mamba2Fields {
    pub heads: (&'static str, u32),
    pub groups: u32,
    pub state: (&'static str, u32),
}

/// Layers of Mamba-2, with heads of `head_dim`, by the fields of models whose layers call every part their mixer.
pub(super) fn mamba2_mixer(
    reader: &Reader<'_>,
    names: &Mamba2Fields,
    head_dim: u32,
    layers: Vec<u32>,
) -> Result<Recurrent> {
    let fields = reader.fields;
    reader.only("use_bias", false)?;
    reader.only("mamba_proj_bias", false)?;
    let dimension = |(name, default): (&'static str, u32)| reader.dimension(&[name], default);
    let mixer = RecurrentMixer::Mamba2 {
        heads: dimension(names.heads)?,
        head_dim,
        groups: fields.u32("n_groups")?.unwrap_or(names.groups),
        state: dimension(names.state)?,
    };
    Ok(Recurrent::new(mixer, fields.u32("conv_kernel")?.unwrap_or(4), layers))
}

/// `use_conv_bias`.
pub(super) fn declared_mixer_conv_bias(reader: &Reader<'_>) -> Result<Vec<(TensorKind, bool)>> {
    Ok(declared(&[MixerConvBias], reader.fields.bool("use_conv_bias")?.unwrap_or(true)))
}

/// Refuses another function behind the convolution than the decoder has there.
pub(super) fn only_silu(reader: &Reader<'_>, name: &str) -> Result<()> {
    if reader.activation(name, "silu")? == Activation::Silu {
        return Ok(());
    }
    let what = format!("{name} other than silu, which the convolution would have");
    Err(RuntimeError::unsupported(reader.fields.path, what, "supported: silu"))
}

/// Layers of Mamba-2 for a model that has them, by the fields `mamba_...`.
pub(super) fn mamba2(reader: &Reader<'_>, model: &ModelConfig, layers: Vec<u32>) -> Result<Recurrent> {
    let inner = reader.fields.u32("mamba_expand")?.unwrap_or(2).saturating_mul(model.hidden);
    mamba2_of(reader, model, ("mamba_expand * hidden_size", inner), layers)
}

/// [`mamba2`] of an inner width, and what says it.
pub(super) fn mamba2_of(
    reader: &Reader<'_>,
    model: &ModelConfig,
    (says, inner): (&str, u32),
    layers: Vec<u32>,
) -> Result<Recurrent> {
    let fields = reader.fields;
    reader.only("mamba_proj_bias", false)?;
    if model.activation != Activation::Silu {
        let what = "hidden_act other than silu, which the convolution would have too";
        return Err(RuntimeError::unsupported(fields.path, what, "supported: silu"));
    }
    refuse_limits(reader)?;
    let heads = reader.dimension(&["mamba_n_heads"], 128)?;
    let automatic = fields.get("mamba_d_head").is_none_or(|value| value == "auto");
    let head_dim = match automatic {
        true => inner.checked_div(heads).unwrap_or(0),
        false => fields.need_u32("mamba_d_head")?,
    };
    if heads.checked_mul(head_dim) != Some(inner) {
        let expected = format!("{says} / mamba_d_head = {inner} / {head_dim}");
        return Err(fields.wrong("mamba_n_heads", expected, heads));
    }
    let mixer = RecurrentMixer::Mamba2 {
        heads,
        head_dim,
        groups: fields.u32("mamba_n_groups")?.unwrap_or(1),
        state: fields.u32("mamba_d_state")?.unwrap_or(256),
    };
    Ok(Recurrent::new(mixer, fields.u32("mamba_d_conv")?.unwrap_or(4), layers))
}

/// `mamba_conv_bias`.
pub(super) fn declared_conv_bias(reader: &Reader<'_>) -> Result<Vec<(TensorKind, bool)>> {
    Ok(declared(&[MixerConvBias], reader.fields.bool("mamba_conv_bias")?.unwrap_or(true)))
}

/// Steps are above 0 by themselves; other limits are obeyed by some programs and not by others.
pub(super) fn refuse_limits(reader: &Reader<'_>) -> Result<()> {
    let Some(limits) = reader.fields.get("time_step_limit").and_then(|limits| limits.as_array()) else {
        return Ok(());
    };
    // Infinity is a word in these files, or an object.
    let is_none = |limit: &serde_json::Value, none: f64| limit.as_f64().is_none_or(|limit| limit == none);
    if limits.len() == 2 && is_none(&limits[0], 0.0) && is_none(&limits[1], f64::INFINITY) {
        return Ok(());
    }
    Err(RuntimeError::unsupported(reader.fields.path, "time_step_limit", "only steps without limits are"))
}
