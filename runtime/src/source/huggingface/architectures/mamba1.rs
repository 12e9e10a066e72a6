//! Mamba and Falcon Mamba: each layer is a state space of Mamba-1 alone, without attention and without a feed-forward.

use qsf_format::TensorKind::*;
use qsf_format::{HalfLayers, ModelConfig, NormConfig, NormKind, PositionConfig, Recurrent, RecurrentMixer};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::mamba::{declared_mixer_conv_bias, only_silu};
use super::reader::without_parts;
use crate::error::Result;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const MAMBA: Architecture = Architecture {
    model_types: &["mamba"],
    base: "backbone.",
    table: NameTable { rules: join_rules!(PARTS, MIXER), ignored: &[] },
    marks: Marks { fields: &["state_size", "time_step_rank"], without: &["mixer_rms_eps"], ..Marks::NONE },
    config: |reader| config(reader, None),
};

/// Steps, B and C are normalized, without gains.
pub(super) const FALCON_MAMBA: Architecture = Architecture {
    model_types: &["falcon_mamba"],
    marks: Marks { fields: &["state_size", "time_step_rank", "mixer_rms_eps"], ..Marks::NONE },
    config: |reader| config(reader, Some(1e-6)),
    ..MAMBA
};

const PARTS: &[NameRule] = &[
    rows("embeddings.weight", &[TokenEmbedding]),
    // As the first versions saved it.
    rows("embedding.weight", &[TokenEmbedding]),
    rows("norm_f.weight", &[FinalNorm]),
    rows("lm_head.weight", &[Head]),
    rows("layers.{}.norm.weight", &[AttnNorm]),
];

const MIXER: &[NameRule] = &[
    rows("layers.{}.mixer.in_proj.weight", &[MixerIn, MixerGate]),
    formed("layers.{}.mixer.conv1d.weight", &[MixerConv], Form::Filters),
    rows("layers.{}.mixer.conv1d.bias", &[MixerConvBias]),
    rows("layers.{}.mixer.x_proj.weight", &[MixerSelect]),
    rows("layers.{}.mixer.dt_proj.weight", &[MixerStepUp]),
    rows("layers.{}.mixer.dt_proj.bias", &[MixerStepBias]),
    formed("layers.{}.mixer.A_log", &[MixerDecay], Form::MinusExp),
    rows("layers.{}.mixer.D", &[MixerSkip]),
    rows("layers.{}.mixer.out_proj.weight", &[MixerOutput]),
];

/// Nothing in the model depends on a position. llama.cpp's converter writes as much.
const POSITIONS: u32 = 1 << 20;

fn config(reader: &Reader<'_>, norm_epsilon: Option<f32>) -> Result<SourceConfig> {
    let fields = reader.fields;
    only_silu(reader, "hidden_act")?;
    reader.only("use_bias", false)?;
    let layers = reader.layers(&["num_hidden_layers"], 32)?;
    let hidden = reader.dimension(&["hidden_size"], 768)?;
    let width = fields.u32("expand")?.unwrap_or(2).saturating_mul(hidden);
    let norm_epsilon = match norm_epsilon {
        Some(epsilon) => Some(fields.f32("mixer_rms_eps")?.unwrap_or(epsilon)),
        None => None,
    };
    let mixer = RecurrentMixer::Mamba1 {
        width,
        state: reader.dimension(&["state_size"], 16)?,
        rank: rank(reader, "time_step_rank", hidden)?,
        norm_epsilon,
        norm_gains: false,
    };
    let taps = fields.u32("conv_kernel")?.unwrap_or(4);
    let epsilon = fields.f32("layer_norm_epsilon")?.unwrap_or(1e-5);
    let [heads, kv_heads, head_dim] = ModelConfig::WITHOUT_ATTENTION;
    let model = ModelConfig {
        architecture: reader.architecture.name().to_owned(),
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        // No layer has a feed-forward.
        ffn: 1,
        vocab: reader.dimension(&["vocab_size"], 50_280)?,
        max_positions: POSITIONS,
        norm: NormConfig::new(NormKind::RmsNorm, epsilon),
        position: PositionConfig::unrotated(layers),
        tied_head: reader.tied_head(true)?,
        half_layers: Some(HalfLayers { mixer: (0..layers).collect(), feed_forward: Vec::new() }),
        recurrent: Some(Recurrent::new(mixer, taps, (0..layers).collect())),
        ..without_parts()
    };
    Ok(SourceConfig { declared: declared_mixer_conv_bias(reader)?, model })
}

/// How narrow steps are before they are made: by default a sixteenth of the residual stream.
pub(super) fn rank(reader: &Reader<'_>, name: &str, hidden: u32) -> Result<u32> {
    match reader.fields.get(name) {
        Some(value) if value != "auto" => reader.fields.need_u32(name),
        _ => Ok(hidden.div_ceil(16)),
    }
}
