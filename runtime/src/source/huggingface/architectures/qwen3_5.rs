//! Qwen 3.5: three layers of gated delta nets to one of gated attention, with norms that multiply by 1 + w.

use qsf_format::TensorKind::{MixerBeta, MixerGate, MixerIn, MixerStep};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::gated_delta::{DELTA_NET, GATED_ATTENTION, IGNORED, gated_delta};
use super::names::{GATED_FFN, MODEL, PRE_NORMS, QK_NORMS};
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const QWEN3_5: Architecture = Architecture {
    model_types: &["qwen3_5_text", "qwen3_5"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, PRE_NORMS, GATED_ATTENTION, QK_NORMS, DELTA_INPUTS, DELTA_NET, GATED_FFN),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["linear_num_value_heads"], without: &["num_experts"], ..Marks::NONE },
    config,
};

/// Input projections of the delta net.
pub(super) const DELTA_INPUTS: &[NameRule] = &[
    rows("layers.{}.linear_attn.in_proj_qkv.weight", &[MixerIn]),
    rows("layers.{}.linear_attn.in_proj_z.weight", &[MixerGate]),
    rows("layers.{}.linear_attn.in_proj_a.weight", &[MixerStep]),
    rows("layers.{}.linear_attn.in_proj_b.weight", &[MixerBeta]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    Ok(plain(gated_delta(
        reader,
        &Defaults {
            vocab: 248_320,
            hidden: 4096,
            ffn: 12_288,
            layers: 32,
            heads: 16,
            kv_heads: Some(4),
            head_dim: Some(256),
            max_positions: 32_768,
            norm_epsilon: 1e-6,
            theta: 10_000.0,
            tied_head: false,
        },
    )?))
}
