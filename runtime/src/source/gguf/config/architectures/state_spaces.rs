//! Mamba-2, and Nemotron-H with it: layers that are one part alone.

use qsf_format::TensorKind::*;
use qsf_format::{Activation, HalfLayers};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, Positions, Window};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION_PAIRS, ENDS, EXPERTS, FFN, SHARED_EXPERTS};
use crate::source::gguf::names::table;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(in super::super) const MAMBA2: Architecture = Architecture {
    name: "mamba2",
    model_type: "mamba2",
    also: &[],
    attention: false,
    gated_ffn: false,
    positions: Positions::Unrotated,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    keys: SSM,
    more: |reading| reading.parts_alone(),
    table: &MAMBA2_TABLE,
    ..LLAMA
};

pub(in super::super) const NEMOTRON_H: Architecture = Architecture {
    name: "nemotron_h",
    model_type: "nemotron_h",
    attention: true,
    activation: Activation::Relu2,
    keys: &[
        "ssm.conv_kernel",
        "ssm.group_count",
        "ssm.inner_size",
        "ssm.state_size",
        "ssm.time_step_rank",
        "rope.scaling.finetuned",
    ],
    per_layer: &["attention.head_count_kv", "feed_forward_length"],
    table: &NEMOTRON_H_TABLE,
    ..MAMBA2
};

/// Its experts have a logistic router with a bias of the choice.
pub(in super::super) const NEMOTRON_H_MOE: Architecture = Architecture {
    name: "nemotron_h_moe",
    experts: ExpertUse::Always,
    router: None,
    keys: &[
        "ssm.conv_kernel",
        "ssm.group_count",
        "ssm.inner_size",
        "ssm.state_size",
        "ssm.time_step_rank",
        "rope.scaling.finetuned",
        "expert_shared_count",
        "expert_shared_feed_forward_length",
        "expert_weights_norm",
        "expert_weights_scale",
        "expert_group_count",
        "expert_group_used_count",
        "expert_gating_func",
        "nextn_predict_layers",
    ],
    table: &NEMOTRON_H_MOE_TABLE,
    ..NEMOTRON_H
};

/// Keys of Mamba-2.
pub(super) const SSM: &[&str] =
    &["ssm.conv_kernel", "ssm.group_count", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank"];

static MAMBA2_TABLE: NameTable = table(join_rules!(ENDS, NORMS, MAMBA));
/// The converter moves rows of queries and keys for a rotation that there is not.
static NEMOTRON_H_TABLE: NameTable = table(join_rules!(ENDS, NORMS, MAMBA, ATTENTION_PAIRS, FFN));
static NEMOTRON_H_MOE_TABLE: NameTable =
    table(join_rules!(ENDS, NORMS, MAMBA, ATTENTION_PAIRS, FFN, EXPERTS, SHARED_EXPERTS));

/// One for the only part of each layer.
const NORMS: &[NameRule] = &[
    rows("output_norm.weight", &[FinalNorm]),
    rows("blk.{}.attn_norm.weight", &[AttnNorm]),
    rows("blk.{}.attn_norm.weight", &[FfnNorm]),
];

pub(super) const MAMBA: &[NameRule] = &[
    rows("blk.{}.ssm_in.weight", &[MixerGate, MixerIn, MixerStep]),
    formed("blk.{}.ssm_conv1d.weight", &[MixerConv], Form::Filters),
    rows("blk.{}.ssm_conv1d.bias", &[MixerConvBias]),
    rows("blk.{}.ssm_a", &[MixerDecay]),
    rows("blk.{}.ssm_dt.bias", &[MixerStepBias]),
    rows("blk.{}.ssm_d", &[MixerSkip]),
    rows("blk.{}.ssm_norm.weight", &[MixerNorm]),
    rows("blk.{}.ssm_out.weight", &[MixerOutput]),
];

impl Reading<'_> {
    /// Layers that are a state space, attention, a feed-forward or experts alone, as their tensors say.
    fn parts_alone(&mut self) -> Result<()> {
        let of = |names: &[&str]| -> Vec<u32> {
            let mut layers: Vec<u32> = names.iter().flat_map(|name| self.layers_with(name)).collect();
            layers.sort_unstable();
            layers.dedup();
            layers
        };
        let state_spaces = of(&["ssm_in.weight"]);
        let halves = HalfLayers {
            mixer: of(&["ssm_in.weight", "attn_q.weight"]),
            feed_forward: of(&["ffn_up.weight", "ffn_gate_inp.weight"]),
        };
        self.config.half_layers = Some(halves);
        self.mamba2(state_spaces)
    }
}
