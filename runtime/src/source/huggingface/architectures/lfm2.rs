//! LFM2: short convolutions between two gates, with a layer of attention among them now and then.

use qsf_format::TensorKind::*;
use qsf_format::{ModelConfig, QkNorm, Recurrent, RecurrentMixer, TensorKind};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::IGNORED;
use super::reader::{Defaults, declared};
use crate::error::Result;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const LFM2: Architecture = Architecture {
    model_types: &["lfm2"],
    base: "model.",
    table: NameTable { rules: join_rules!(PARTS, CONVOLUTION, FFN), ignored: IGNORED },
    marks: Marks { fields: &["conv_L_cache"], without: &["num_experts"], ..Marks::NONE },
    config,
};

/// Ends, norms and attention.
pub(super) const PARTS: &[NameRule] = &[
    rows("embed_tokens.weight", &[TokenEmbedding]),
    rows("embedding_norm.weight", &[FinalNorm]),
    rows("lm_head.weight", &[Head]),
    rows("layers.{}.operator_norm.weight", &[AttnNorm]),
    rows("layers.{}.ffn_norm.weight", &[FfnNorm]),
    rows("layers.{}.self_attn.q_proj.weight", &[AttnQ]),
    rows("layers.{}.self_attn.k_proj.weight", &[AttnK]),
    rows("layers.{}.self_attn.v_proj.weight", &[AttnV]),
    rows("layers.{}.self_attn.out_proj.weight", &[AttnOutput]),
    rows("layers.{}.self_attn.q_layernorm.weight", &[QNorm]),
    rows("layers.{}.self_attn.k_layernorm.weight", &[KNorm]),
];

/// The short convolution.
pub(super) const CONVOLUTION: &[NameRule] = &[
    rows("layers.{}.conv.in_proj.weight", &[MixerIn]),
    rows("layers.{}.conv.in_proj.bias", &[MixerInBias]),
    formed("layers.{}.conv.conv.weight", &[MixerConv], Form::Filters),
    rows("layers.{}.conv.conv.bias", &[MixerConvBias]),
    rows("layers.{}.conv.out_proj.weight", &[MixerOutput]),
    rows("layers.{}.conv.out_proj.bias", &[MixerOutputBias]),
];

/// The feed-forward.
pub(super) const FFN: &[NameRule] = &[
    rows("layers.{}.feed_forward.w1.weight", &[FfnGate]),
    rows("layers.{}.feed_forward.w3.weight", &[FfnUp]),
    rows("layers.{}.feed_forward.w2.weight", &[FfnDown]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = short_conv(
        reader,
        &Defaults {
            vocab: 65_536,
            hidden: 2560,
            ffn: 12_288,
            layers: 32,
            heads: 32,
            kv_heads: Some(8),
            head_dim: None,
            max_positions: 128_000,
            norm_epsilon: 1e-5,
            theta: 1_000_000.0,
            tied_head: true,
        },
    )?;
    model.ffn = inner_width(reader, model.ffn)?;
    Ok(SourceConfig { declared: declared_biases(reader)?, model })
}

/// A model with short convolutions, with the fields that both kinds of feed-forward have beside them.
pub(super) fn short_conv(reader: &Reader<'_>, defaults: &Defaults) -> Result<ModelConfig> {
    let fields = reader.fields;
    let mut model = reader.llama_like(defaults)?;
    model.norm.epsilon = fields.f32("norm_eps")?.unwrap_or(defaults.norm_epsilon);
    model.qk_norm = Some(QkNorm::Head);
    // The name that the first files have.
    model.tied_head = fields.bool("tie_embedding")?.unwrap_or(model.tied_head);
    let layers = convolutions(reader, model.layers)?;
    if !layers.is_empty() {
        let taps = reader.dimension(&["conv_L_cache"], 3)?;
        model.recurrent = Some(Recurrent::new(RecurrentMixer::ShortConv {}, taps, layers));
    }
    Ok(model)
}

/// `conv_bias`.
pub(super) fn declared_biases(reader: &Reader<'_>) -> Result<Vec<(TensorKind, bool)>> {
    let there = reader.fields.bool("conv_bias")?.unwrap_or(false);
    Ok(declared(&[MixerInBias, MixerConvBias, MixerOutputBias], there))
}

/// Layers without attention, by `layer_types` or by the list of the others.
fn convolutions(reader: &Reader<'_>, layers: u32) -> Result<Vec<u32>> {
    if let Some(found) = reader.layers_of_type(layers, "conv")? {
        return Ok(found);
    }
    let Some(attention) = reader.fields.u32s("full_attn_idxs")? else { return Ok(Vec::new()) };
    Ok((0..layers).filter(|layer| !attention.contains(layer)).collect())
}

/// The width of the feed-forward, which by default is two thirds of the number in the file.
fn inner_width(reader: &Reader<'_>, given: u32) -> Result<u32> {
    let fields = reader.fields;
    let given = fields.u32("block_ff_dim")?.unwrap_or(given);
    if !fields.bool("block_auto_adjust_ff_dim")?.unwrap_or(true) {
        return Ok(given);
    }
    let adjusted = (2.0 * f64::from(given) / 3.0) as u32;
    let factor = match fields.f64("block_ffn_dim_multiplier")? {
        Some(factor) => factor,
        None if fields.map.contains_key("block_ffn_dim_multiplier") => return Ok(adjusted),
        None => 1.0,
    };
    let multiple = fields.u32("block_multiple_of")?.unwrap_or(256);
    if multiple == 0 {
        return Err(fields.wrong("block_multiple_of", "1 or more", multiple));
    }
    let scaled = (factor * f64::from(adjusted)) as u32;
    scaled.checked_next_multiple_of(multiple).ok_or_else(|| {
        fields.wrong("block_ffn_dim_multiplier", "a factor that leaves a width below 2^32", factor)
    })
}
