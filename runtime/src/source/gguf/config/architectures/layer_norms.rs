//! Models with layer norms: StarCoder 2, StableLM, Nemotron 4 and Minitron, OLMo 1.

use qsf_format::TensorKind::{
    AttnKBias, AttnNormBias, AttnOutputBias, AttnQBias, AttnVBias, FfnDownBias, FfnNormBias, FfnUpBias,
    FinalNormBias,
};
use qsf_format::{Activation, NormKind, Residual};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use super::mixtures::limited;
use crate::error::Result;
use crate::source::gguf::name_groups::{
    ATTENTION, ATTENTION_PAIRS, ENDS, FFN, NORM_BIASES, PRE_NORMS, PRE_NORMS_PLUS_ONE,
};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameTable, join_rules};

pub(in super::super) const STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    model_type: "starcoder2",
    also: &[],
    norm: NormKind::LayerNorm,
    activation: Activation::GeluTanh,
    gated_ffn: false,
    positions: ROTARY,
    experts: ExpertUse::Never,
    table: &TABLE,
    biases: &[
        AttnQBias,
        AttnKBias,
        AttnVBias,
        AttnOutputBias,
        AttnNormBias,
        FfnNormBias,
        FfnUpBias,
        FfnDownBias,
        FinalNormBias,
    ],
    ..LLAMA
};

pub(in super::super) const STABLELM: Architecture = Architecture {
    name: "stablelm",
    model_type: "stablelm",
    window: Window::Unknown,
    activation: Activation::Silu,
    gated_ffn: true,
    residual: None,
    keys: &["use_parallel_residual"],
    more: one_norm,
    biases: &[AttnNormBias, FinalNormBias],
    ..STARCODER2
};

pub(in super::super) const NEMOTRON: Architecture = Architecture {
    name: "nemotron",
    model_type: "nemotron",
    window: Window::Unknown,
    gain_plus_one: true,
    activation: Activation::Relu2,
    table: &PLUS_ONE,
    biases: &[AttnNormBias, FfnNormBias, FinalNormBias],
    ..STARCODER2
};

/// Norms multiply with 1 and add nothing.
pub(in super::super) const OLMO: Architecture = Architecture {
    name: "olmo",
    model_type: "olmo",
    window: Window::Unknown,
    activation: Activation::Silu,
    gated_ffn: true,
    keys: &["attention.clamp_kqv"],
    more: |reading| {
        reading.config.norm.without_gain = true;
        limited(reading)
    },
    table: &WITHOUT_NORMS,
    biases: &[],
    ..STARCODER2
};

static TABLE: NameTable = table(join_rules!(ENDS, PRE_NORMS, NORM_BIASES, ATTENTION, FFN));
static PLUS_ONE: NameTable = table(join_rules!(ENDS, PRE_NORMS_PLUS_ONE, NORM_BIASES, ATTENTION, FFN));
static WITHOUT_NORMS: NameTable = table(join_rules!(ENDS, ATTENTION_PAIRS, FFN));

/// Where attention and feed-forward stand side by side, both read the same norm.
fn one_norm(reading: &mut Reading<'_>) -> Result<()> {
    if reading.config.residual == Residual::Parallel && reading.layers_with("ffn_norm.weight").is_empty() {
        reading.config.residual = Residual::ParallelOneNorm;
    }
    Ok(())
}
