//! Phi-3.5-MoE: two experts by a router of its own kind (arXiv 2409.12136), layer norms, LongRoPE.

use qsf_format::TensorKind::{AttnNormBias, FfnNormBias, FinalNormBias, HeadBias};
use qsf_format::{NormKind, RouterScore};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use crate::error::{Result, RuntimeError};
use crate::source::gguf::name_groups::{ATTENTION, ENDS, EXPERTS, NORM_BIASES, PRE_NORMS};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(in super::super) const PHIMOE: Architecture = Architecture {
    name: "phimoe",
    model_type: "phimoe",
    also: &[],
    norm: NormKind::LayerNorm,
    positions: ROTARY,
    window: Window::All,
    experts: ExpertUse::Always,
    normalize_weights: false,
    router: Some(RouterScore::SparseMixer),
    more: margin,
    table: &TABLE,
    biases: &[AttnNormBias, FfnNormBias, FinalNormBias],
    ..LLAMA
};

static TABLE: NameTable = table(join_rules!(ENDS, HEAD_BIAS, PRE_NORMS, NORM_BIASES, ATTENTION, EXPERTS));

const HEAD_BIAS: &[NameRule] = &[rows("output.bias", &[HeadBias])];

/// What the configuration of the released model says, and files do not: twice its `router_jitter_noise`.
const MARGIN: f32 = 0.02;

fn margin(reading: &mut Reading<'_>) -> Result<()> {
    let Some(experts) = &mut reading.config.experts else { return Ok(()) };
    if experts.used != 2 {
        let what = format!("phimoe.expert_used_count = {}", experts.used);
        return Err(RuntimeError::unsupported(reading.file.path(), what, "only 2 is"));
    }
    experts.margin = Some(MARGIN);
    Ok(())
}
