//! Kimi Linear: gated delta rules in which each channel of a key decays for itself, among them attention by way of latents without
//! rotation, and the router of DeepSeek V3.

use qsf_format::TensorKind::*;
use qsf_format::{PositionConfig, RecurrentMixer};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use super::deepseek2::{APART, latents, of_latents};
use crate::error::Result;
use crate::source::gguf::name_groups::{ENDS, EXPERTS, FFN, PRE_NORMS, SHARED_EXPERTS};
use crate::source::gguf::names::table;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(in super::super) const KIMI_LINEAR: Architecture = Architecture {
    name: "kimi-linear",
    model_type: "kimi_linear",
    also: &[],
    written: false,
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Maybe("kimi_linear"),
    router: None,
    head_widths: ["attention.key_length_mla", "attention.key_length_mla"],
    keys: &[
        "attention.key_length_mla",
        "attention.value_length_mla",
        "attention.kv_lora_rank",
        "attention.q_lora_rank",
        "expert_gating_func",
        "expert_group_count",
        "expert_group_used_count",
        "expert_shared_count",
        "expert_weights_scale",
        "kda.head_dim",
        "leading_dense_block_count",
        "ssm.conv_kernel",
    ],
    per_layer: &["attention.head_count_kv"],
    more: delta,
    table: &TABLE,
    ..LLAMA
};

static TABLE: NameTable = table(join_rules!(
    ENDS,
    PRE_NORMS,
    &of_latents(Form::RotatedLast),
    APART,
    DELTA,
    FFN,
    EXPERTS,
    SHARED_EXPERTS
));

const DELTA: &[NameRule] = &[
    formed("blk.{}.attn_q.weight", &[MixerIn], Form::Piece),
    formed("blk.{}.attn_k.weight", &[MixerIn], Form::Piece),
    formed("blk.{}.attn_v.weight", &[MixerIn], Form::Piece),
    formed("blk.{}.ssm_conv1d_q.weight", &[MixerConv], Form::Piece),
    formed("blk.{}.ssm_conv1d_k.weight", &[MixerConv], Form::Piece),
    formed("blk.{}.ssm_conv1d_v.weight", &[MixerConv], Form::Piece),
    rows("blk.{}.ssm_f_a.weight", &[MixerStep]),
    rows("blk.{}.ssm_f_b.weight", &[MixerStepUp]),
    rows("blk.{}.ssm_dt.bias", &[MixerStepBias]),
    rows("blk.{}.ssm_a", &[MixerDecay]),
    rows("blk.{}.ssm_beta.weight", &[MixerBeta]),
    rows("blk.{}.ssm_g_a.weight", &[MixerGateDown]),
    rows("blk.{}.ssm_g_b.weight", &[MixerGate]),
    rows("blk.{}.ssm_norm.weight", &[MixerNorm]),
    rows("blk.{}.attn_output.weight", &[MixerOutput]),
];

fn delta(reading: &mut Reading<'_>) -> Result<()> {
    latents(reading)?;
    let all = (0..reading.config.layers).collect();
    if let PositionConfig::Rope { unrotated_layers, .. } = &mut reading.config.position {
        *unrotated_layers = all;
    }
    let layers = reading.without_attention()?;
    let Some(first) = layers.first() else { return Ok(()) };
    let dim = reading.needed("kda.head_dim")?;
    // No key has the heads: one rate is computed for each.
    let rates =
        reading.shape(&format!("blk.{first}.ssm_beta.weight")).and_then(|shape| shape.get(1).copied());
    let heads = rates.and_then(|rates| u32::try_from(rates).ok()).unwrap_or(reading.config.heads);
    let mixer =
        RecurrentMixer::GatedDelta { key_heads: heads, key_dim: dim, value_heads: heads, value_dim: dim };
    reading.recurrent(mixer, "ssm.conv_kernel", layers)?;
    if let Some(recurrent) = &mut reading.config.recurrent {
        recurrent.channel_rank = Some(dim);
    }
    Ok(())
}
