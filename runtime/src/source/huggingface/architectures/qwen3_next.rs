//! Qwen 3 Next: gated delta nets whose input projections are joined, and a mixture of experts in all layers or in some.

use qsf_format::TensorKind::{MixerBeta, MixerGate, MixerIn, MixerStep};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::gated_delta::{DELTA_NET, GATED_ATTENTION, IGNORED, gated_delta, with_shared_expert};
use super::mixtures::ExpertDefaults;
use super::names::{GATED_FFN, JOINED_EXPERTS, MODEL, PRE_NORMS, QK_NORMS, ROUTED_EXPERTS, SHARED_EXPERT};
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules};

pub(super) const QWEN3_NEXT: Architecture = Architecture {
    model_types: &["qwen3_next"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            GATED_ATTENTION,
            QK_NORMS,
            JOINED_INPUTS,
            DELTA_NET,
            GATED_FFN,
            ROUTED_EXPERTS,
            JOINED_EXPERTS,
            SHARED_EXPERT
        ),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["linear_num_value_heads", "num_experts"], ..Marks::NONE },
    config,
};

/// Input projections of the delta net.
const JOINED_INPUTS: &[NameRule] = &[
    formed("layers.{}.linear_attn.in_proj_qkvz.weight", &[MixerIn, MixerGate], Form::KeyHeadByKeyHead),
    formed("layers.{}.linear_attn.in_proj_ba.weight", &[MixerBeta, MixerStep], Form::KeyHeadByKeyHead),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = gated_delta(
        reader,
        &Defaults {
            vocab: 151_936,
            hidden: 2048,
            ffn: 5632,
            layers: 48,
            heads: 16,
            kv_heads: Some(2),
            head_dim: Some(256),
            max_positions: 32_768,
            norm_epsilon: 1e-6,
            theta: 10_000.0,
            tied_head: false,
        },
    )?;
    let defaults = ExpertDefaults { count: 512, used: 10, ffn: 512, normalize: true };
    model.experts = with_shared_expert(reader, model.layers, defaults)?;
    Ok(plain(model))
}
