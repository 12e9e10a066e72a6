//! Qwen 3.5 and Qwen3-Next: gated delta nets with a layer of gated attention among them now and then, norms with 1 + w.

use qsf_format::QkNorm;
use qsf_format::TensorKind::*;

use super::super::architecture::{Architecture, ExpertUse, LLAMA, Window, rotary};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{
    ENDS, EXPERTS, FFN, PRE_NORMS_LATE_PLUS_ONE, QK_NORMS_PLUS_ONE, SHARED_EXPERTS,
};
use crate::source::gguf::names::table;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(in super::super) const QWEN35: Architecture = Architecture {
    name: "qwen35",
    model_type: "qwen3_5_text",
    also: &["qwen3_5"],
    gain_plus_one: true,
    qk_norm: Some(QkNorm::Head),
    positions: rotary(None, None, true, false),
    window: Window::Unknown,
    experts: ExpertUse::Never,
    keys: &[
        "attention.recurrent_layers",
        "full_attention_interval",
        "nextn_predict_layers",
        // Of the positions of pictures; text has the same in all of them.
        "rope.dimension_sections",
        "expert_shared_count",
        "expert_shared_feed_forward_length",
        "expert_gating_func",
        "ssm.conv_kernel",
        "ssm.group_count",
        "ssm.inner_size",
        "ssm.state_size",
        "ssm.time_step_rank",
    ],
    more: delta_nets,
    table: &TILED,
    ..LLAMA
};

pub(in super::super) const QWEN35_MOE: Architecture = Architecture {
    name: "qwen35moe",
    model_type: "qwen3_5_moe_text",
    also: &["qwen3_5_moe"],
    experts: ExpertUse::Always,
    ..QWEN35
};

pub(in super::super) const QWEN3_NEXT: Architecture =
    Architecture { name: "qwen3next", model_type: "qwen3_next", also: &[], table: &GROUPED, ..QWEN35_MOE };

static TILED: NameTable = table(join_rules!(
    ENDS,
    PRE_NORMS_LATE_PLUS_ONE,
    ATTENTION,
    QK_NORMS_PLUS_ONE,
    TILED_NET,
    FFN,
    EXPERTS,
    SHARED_EXPERTS
));

static GROUPED: NameTable = table(join_rules!(
    ENDS,
    PRE_NORMS_LATE_PLUS_ONE,
    ATTENTION,
    QK_NORMS_PLUS_ONE,
    GROUPED_NET,
    FFN,
    EXPERTS,
    SHARED_EXPERTS
));

/// Attention whose queries alternate with gates, head by head.
const ATTENTION: &[NameRule] = &[
    formed("blk.{}.attn_q.weight", &[AttnQ, AttnGate], Form::HeadByHead),
    rows("blk.{}.attn_k.weight", &[AttnK]),
    rows("blk.{}.attn_v.weight", &[AttnV]),
    rows("blk.{}.attn_output.weight", &[AttnOutput]),
];

/// The delta net, its value heads in the order that its state is computed in there.
const TILED_NET: &[NameRule] = &[
    formed("blk.{}.attn_qkv.weight", &[MixerIn], Form::TiledHeads),
    formed("blk.{}.attn_gate.weight", &[MixerGate], Form::TiledHeads),
    formed("blk.{}.ssm_alpha.weight", &[MixerStep], Form::TiledHeads),
    formed("blk.{}.ssm_beta.weight", &[MixerBeta], Form::TiledHeads),
    formed("blk.{}.ssm_conv1d.weight", &[MixerConv], Form::TiledHeads),
    formed("blk.{}.ssm_a", &[MixerDecay], Form::TiledHeads),
    formed("blk.{}.ssm_dt.bias", &[MixerStepBias], Form::TiledHeads),
    rows("blk.{}.ssm_norm.weight", &[MixerNorm]),
    formed("blk.{}.ssm_out.weight", &[MixerOutput], Form::TiledHeads),
];

/// The delta net, its value heads in the order of the model.
const GROUPED_NET: &[NameRule] = &[
    rows("blk.{}.attn_qkv.weight", &[MixerIn]),
    rows("blk.{}.attn_gate.weight", &[MixerGate]),
    formed("blk.{}.ssm_ba.weight", &[MixerBeta, MixerStep], Form::KeyHeadByKeyHead),
    formed("blk.{}.ssm_conv1d.weight", &[MixerConv], Form::Filters),
    rows("blk.{}.ssm_a", &[MixerDecay]),
    rows("blk.{}.ssm_dt.bias", &[MixerStepBias]),
    rows("blk.{}.ssm_norm.weight", &[MixerNorm]),
    rows("blk.{}.ssm_out.weight", &[MixerOutput]),
];

fn delta_nets(reading: &mut Reading<'_>) -> Result<()> {
    let all = reading.config.layers;
    let layers = match reading.flags("attention.recurrent_layers")? {
        Some(recurrent) => {
            (0..all).zip(recurrent).filter(|(_, recurrent)| *recurrent).map(|(i, _)| i).collect()
        }
        None => {
            let interval = reading.number("full_attention_interval")?.unwrap_or(4).max(1);
            (0..all).filter(|layer| (layer + 1) % interval != 0).collect::<Vec<u32>>()
        }
    };
    reading.config.attention_gate = layers.len() < all as usize;
    reading.gated_delta(layers)
}
