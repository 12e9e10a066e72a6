//! OLMo Hybrid: gated delta nets with norms before their parts, and among them attention with norms behind its parts.

use qsf_format::TensorKind::*;
use qsf_format::{Activation, NormPlacement, PositionConfig, QkNorm, Recurrent, RecurrentMixer};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::gated_delta::delta_layers;
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, OUTPUT_BIAS, QK_NORMS, QKV_BIASES};
use super::reader::Defaults;
use crate::error::{Result, RuntimeError};
use crate::model_dir::Fields;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const OLMO_HYBRID: Architecture = Architecture {
    model_types: &["olmo_hybrid"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, NORMS, ATTENTION, QKV_BIASES, OUTPUT_BIAS, QK_NORMS, GATED_FFN, DELTA),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["linear_allow_neg_eigval"], ..Marks::NONE },
    config,
};

/// transformers 5 has other names in memory than it saves, and saves some of layers with attention under those of the others.
const NORMS: &[NameRule] = &[
    rows("layers.{}.attention_layer_norm.weight", &[AttnNorm]),
    rows("layers.{}.input_layernorm.weight", &[AttnNorm]),
    rows("layers.{}.feedforward_layer_norm.weight", &[FfnNorm]),
    rows("layers.{}.post_attention_layernorm.weight", &[FfnNorm]),
    rows("layers.{}.post_attention_layernorm.weight", &[PostAttnNorm]),
    rows("layers.{}.feedforward_layer_norm.weight", &[PostAttnNorm]),
    rows("layers.{}.post_feedforward_layernorm.weight", &[PostFfnNorm]),
];

const DELTA: &[NameRule] = &[
    formed("layers.{}.linear_attn.q_proj.weight", &[MixerIn], Form::Piece),
    formed("layers.{}.linear_attn.k_proj.weight", &[MixerIn], Form::Piece),
    formed("layers.{}.linear_attn.v_proj.weight", &[MixerIn], Form::Piece),
    rows("layers.{}.linear_attn.g_proj.weight", &[MixerGate]),
    rows("layers.{}.linear_attn.a_proj.weight", &[MixerStep]),
    rows("layers.{}.linear_attn.b_proj.weight", &[MixerBeta]),
    formed("layers.{}.linear_attn.q_conv1d.weight", &[MixerConv], Form::Piece),
    formed("layers.{}.linear_attn.k_conv1d.weight", &[MixerConv], Form::Piece),
    formed("layers.{}.linear_attn.v_conv1d.weight", &[MixerConv], Form::Piece),
    formed("layers.{}.linear_attn.conv1d.weight", &[MixerConv], Form::Filters),
    formed("layers.{}.linear_attn.A_log", &[MixerDecay], Form::MinusExp),
    rows("layers.{}.linear_attn.dt_bias", &[MixerStepBias]),
    rows("layers.{}.linear_attn.o_norm.weight", &[MixerNorm]),
    rows("layers.{}.linear_attn.o_proj.weight", &[MixerOutput]),
];

/// Of the norm of what a delta net gives, whatever that of the others is.
const EPSILON: f32 = 1e-5;

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let mut model = reader.llama_like(&Defaults {
        vocab: 100_352,
        hidden: 3840,
        ffn: 11_008,
        layers: 32,
        heads: 30,
        kv_heads: None,
        head_dim: None,
        max_positions: 65_536,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    if model.activation != Activation::Silu {
        let what = "hidden_act other than silu, which the convolution would have too";
        return Err(RuntimeError::unsupported(fields.path, what, "supported: silu"));
    }
    model.qk_norm = Some(QkNorm::Projection);
    // Not rotated where the base is there as null; where it is not there, transformers has one.
    let nested = fields.object("rope_parameters", "rope_parameters.")?;
    let theta = |fields: Fields<'_>| fields.map.get("rope_theta").map(serde_json::Value::is_null);
    if nested.and_then(theta).or(theta(fields)) == Some(true) {
        model.position = PositionConfig::unrotated(model.layers);
    }
    let layers = delta_layers(reader, model.layers)?;
    if layers.is_empty() {
        model.norm.placement = NormPlacement::Post;
        return Ok(SourceConfig { declared: reader.attention_bias()?, model });
    }
    model.norm.placement = NormPlacement::ByMixer;
    let key_heads = fields.u32("linear_num_key_heads")?.unwrap_or(model.heads);
    let key_dim = fields.u32("linear_key_head_dim")?;
    // Three quarters of the width.
    let key_dim = key_dim.unwrap_or((model.hidden / 4 * 3).checked_div(key_heads).unwrap_or(0));
    let mixer = RecurrentMixer::GatedDelta {
        key_heads,
        key_dim,
        value_heads: fields.u32("linear_num_value_heads")?.unwrap_or(model.heads),
        value_dim: fields.u32("linear_value_head_dim")?.unwrap_or(key_dim.saturating_mul(2)),
    };
    let taps = fields.u32("linear_conv_kernel_dim")?.unwrap_or(4);
    let mut recurrent = Recurrent::new(mixer, taps, layers);
    recurrent.beta_scale = fields.bool("linear_allow_neg_eigval")?.unwrap_or(true).then_some(2.0);
    recurrent.norm_epsilon = Some(EPSILON);
    model.recurrent = Some(recurrent);
    Ok(SourceConfig { declared: reader.attention_bias()?, model })
}
