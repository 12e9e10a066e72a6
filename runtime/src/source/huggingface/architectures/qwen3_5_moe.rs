//! Qwen 3.5 with a mixture of experts in all layers.

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::gated_delta::{DELTA_NET, GATED_ATTENTION, IGNORED, gated_delta, with_shared_expert};
use super::mixtures::ExpertDefaults;
use super::names::{JOINED_EXPERTS, MODEL, PRE_NORMS, QK_NORMS, ROUTED_EXPERTS, SHARED_EXPERT};
use super::qwen3_5::DELTA_INPUTS;
use super::reader::{Defaults, plain};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const QWEN3_5_MOE: Architecture = Architecture {
    model_types: &["qwen3_5_moe_text", "qwen3_5_moe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            GATED_ATTENTION,
            QK_NORMS,
            DELTA_INPUTS,
            DELTA_NET,
            ROUTED_EXPERTS,
            JOINED_EXPERTS,
            SHARED_EXPERT
        ),
        ignored: IGNORED,
    },
    marks: Marks { fields: &["linear_num_value_heads", "num_experts"], ..Marks::NONE },
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = gated_delta(
        reader,
        &Defaults {
            vocab: 248_320,
            hidden: 2048,
            // No layer has an ordinary feed-forward.
            ffn: 512,
            layers: 40,
            heads: 16,
            kv_heads: Some(2),
            head_dim: Some(256),
            max_positions: 32_768,
            norm_epsilon: 1e-6,
            theta: 10_000.0,
            tied_head: false,
        },
    )?;
    // Weights always add up to 1.
    reader.only("norm_topk_prob", true)?;
    let defaults = ExpertDefaults { count: 256, used: 8, ffn: 512, normalize: true };
    model.experts = with_shared_expert(reader, model.layers, defaults)?;
    Ok(plain(model))
}
