//! LFM2: short convolutions, with a layer of attention among them now and then.

use qsf_format::TensorKind::*;
use qsf_format::{QkNorm, RecurrentMixer};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION, ENDS, EXPERTS, FFN, QK_NORMS};
use crate::source::gguf::names::table;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(in super::super) const LFM2: Architecture = Architecture {
    name: "lfm2",
    model_type: "lfm2",
    also: &[],
    qk_norm: Some(QkNorm::Head),
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    keys: &["shortconv.l_cache", "expert_gating_func", "leading_dense_block_count"],
    per_layer: &["attention.head_count_kv"],
    more: convolutions,
    table: &TABLE,
    ..LLAMA
};

pub(in super::super) const LFM2_MOE: Architecture = Architecture {
    name: "lfm2moe",
    model_type: "lfm2_moe",
    experts: ExpertUse::Always,
    router: None,
    ..LFM2
};

static TABLE: NameTable = table(join_rules!(ENDS, NORMS, ATTENTION, QK_NORMS, CONVOLUTION, FFN, EXPERTS));

const NORMS: &[NameRule] = &[
    rows("output_norm.weight", &[FinalNorm]),
    // Behind the last layer, for all its name. Files of today have this one.
    rows("token_embd_norm.weight", &[FinalNorm]),
    rows("blk.{}.attn_norm.weight", &[AttnNorm]),
    rows("blk.{}.ffn_norm.weight", &[FfnNorm]),
];

const CONVOLUTION: &[NameRule] = &[
    rows("blk.{}.shortconv.in_proj.weight", &[MixerIn]),
    formed("blk.{}.shortconv.conv.weight", &[MixerConv], Form::Filters),
    rows("blk.{}.shortconv.out_proj.weight", &[MixerOutput]),
];

fn convolutions(reading: &mut Reading<'_>) -> Result<()> {
    let layers = reading.without_attention()?;
    reading.recurrent(RecurrentMixer::ShortConv {}, "shortconv.l_cache", layers)
}
