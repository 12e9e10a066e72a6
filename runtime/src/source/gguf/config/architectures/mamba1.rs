//! Mamba-1: Mamba and Falcon Mamba, which are it alone, and Jamba with attention and experts among its layers.

use qsf_format::TensorKind::*;
use qsf_format::{HalfLayers, RecurrentMixer};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, Positions, Window};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION, ENDS, EXPERTS, FFN, PRE_NORMS};
use crate::source::gguf::names::table;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(in super::super) const MAMBA1: Architecture = Architecture {
    name: "mamba",
    model_type: "mamba",
    also: &["falcon_mamba"],
    attention: false,
    gated_ffn: false,
    positions: Positions::Unrotated,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    keys: &["ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank", "ssm.dt_b_c_rms"],
    more: alone,
    table: &ALONE,
    ..LLAMA
};

pub(in super::super) const JAMBA: Architecture = Architecture {
    name: "jamba",
    model_type: "jamba",
    also: &[],
    attention: true,
    gated_ffn: true,
    experts: ExpertUse::Maybe("jamba"),
    normalize_weights: false,
    per_layer: &["attention.head_count_kv"],
    more: among_others,
    table: &JAMBA_TABLE,
    ..MAMBA1
};

static ALONE: NameTable = table(join_rules!(ENDS, NORMS, MIXER));
static JAMBA_TABLE: NameTable = table(join_rules!(ENDS, PRE_NORMS, MIXER, ATTENTION, FFN, EXPERTS));

const NORMS: &[NameRule] =
    &[rows("output_norm.weight", &[FinalNorm]), rows("blk.{}.attn_norm.weight", &[AttnNorm])];

const MIXER: &[NameRule] = &[
    rows("blk.{}.ssm_in.weight", &[MixerIn, MixerGate]),
    formed("blk.{}.ssm_conv1d.weight", &[MixerConv], Form::Filters),
    rows("blk.{}.ssm_conv1d.bias", &[MixerConvBias]),
    rows("blk.{}.ssm_x.weight", &[MixerSelect]),
    rows("blk.{}.ssm_dt_norm.weight", &[MixerStepNorm]),
    rows("blk.{}.ssm_b_norm.weight", &[MixerBNorm]),
    rows("blk.{}.ssm_c_norm.weight", &[MixerCNorm]),
    rows("blk.{}.ssm_dt.weight", &[MixerStepUp]),
    rows("blk.{}.ssm_dt.bias", &[MixerStepBias]),
    rows("blk.{}.ssm_a", &[MixerDecay]),
    rows("blk.{}.ssm_d", &[MixerSkip]),
    rows("blk.{}.ssm_out.weight", &[MixerOutput]),
];

/// What Falcon Mamba adds in these norms, which its files do not say.
const FALCON_EPSILON: f32 = 1e-6;

fn alone(reading: &mut Reading<'_>) -> Result<()> {
    let layers: Vec<u32> = (0..reading.config.layers).collect();
    let norms = reading.flag("ssm.dt_b_c_rms")?.unwrap_or(false);
    if norms {
        reading.config.architecture = "falcon_mamba".into();
    }
    reading.config.half_layers = Some(HalfLayers { mixer: layers.clone(), feed_forward: Vec::new() });
    mamba1(reading, norms.then_some(FALCON_EPSILON), false, layers)
}

fn among_others(reading: &mut Reading<'_>) -> Result<()> {
    let layers = reading.without_attention()?;
    let gains = !reading.layers_with("ssm_dt_norm.weight").is_empty();
    let epsilon = gains.then_some(reading.config.norm.epsilon);
    if reading.layers_with("ffn_gate_inp.weight").is_empty() {
        // "One expert" is none.
        reading.config.experts = None;
    }
    mamba1(reading, epsilon, gains, layers)
}

fn mamba1(
    reading: &mut Reading<'_>,
    norm_epsilon: Option<f32>,
    norm_gains: bool,
    layers: Vec<u32>,
) -> Result<()> {
    let mixer = RecurrentMixer::Mamba1 {
        width: reading.needed("ssm.inner_size")?,
        state: reading.needed("ssm.state_size")?,
        rank: reading.needed("ssm.time_step_rank")?,
        norm_epsilon,
        norm_gains,
    };
    reading.recurrent(mixer, "ssm.conv_kernel", layers)
}
