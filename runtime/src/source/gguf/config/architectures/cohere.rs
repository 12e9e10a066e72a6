//! Command R, R+, R7B and A: attention and feed-forward side by side behind one layer norm, scaled logits.

use qsf_format::TensorKind::*;
use qsf_format::{NormKind, PositionConfig, QkNorm, Residual};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION_PAIRS, ENDS, FFN};
use crate::source::gguf::names::table;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(in super::super) const COMMAND_R: Architecture = Architecture {
    name: "command-r",
    model_type: "cohere",
    also: &[],
    norm: NormKind::LayerNorm,
    residual: Some(Residual::ParallelOneNorm),
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    keys: &["logit_scale"],
    more: scaled_logits,
    table: &TABLE,
    ..LLAMA
};

pub(in super::super) const COHERE2: Architecture = Architecture {
    name: "cohere2",
    model_type: "cohere2",
    window: Window::AllButEvery(4),
    more: rotated_windows,
    ..COMMAND_R
};

static TABLE: NameTable = table(join_rules!(ENDS, NORMS, ATTENTION_PAIRS, FFN));

const NORMS: &[NameRule] = &[
    rows("output_norm.weight", &[FinalNorm]),
    rows("blk.{}.attn_norm.weight", &[AttnNorm]),
    formed("blk.{}.attn_q_norm.weight", &[QNorm], Form::NeighbouringPairs),
    formed("blk.{}.attn_k_norm.weight", &[KNorm], Form::NeighbouringPairs),
];

fn scaled_logits(reading: &mut Reading<'_>) -> Result<()> {
    reading.config.logit_scale = reading.factor("logit_scale")?;
    let has_norms = !reading.layers_with("attn_q_norm.weight").is_empty();
    reading.config.qk_norm = has_norms.then_some(QkNorm::HeadsApart);
    Ok(())
}

fn rotated_windows(reading: &mut Reading<'_>) -> Result<()> {
    scaled_logits(reading)?;
    unrotated_without_window(reading);
    Ok(())
}

/// Layers without a window see no positions.
pub(super) fn unrotated_without_window(reading: &mut Reading<'_>) {
    let window = reading.config.sliding_window.as_ref();
    let slides = |layer: u32| window.is_some_and(|window| window.layers.contains(&layer));
    let unrotated: Vec<u32> = (0..reading.config.layers).filter(|&layer| !slides(layer)).collect();
    if let PositionConfig::Rope { unrotated_layers, .. } = &mut reading.config.position {
        *unrotated_layers = unrotated;
    }
}
