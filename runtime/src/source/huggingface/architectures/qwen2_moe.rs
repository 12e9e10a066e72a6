//! Qwen 1.5 and 2 with a mixture of experts: one of them, with a router of its own, is for all tokens.

use qsf_format::TensorKind::{AttnKBias, AttnQBias, AttnVBias};
use qsf_format::{Experts, SharedExperts};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::mixtures::ExpertDefaults;
use super::names::{
    ATTENTION, GATED_FFN, IGNORED, JOINED_EXPERTS, MODEL, PRE_NORMS, QKV_BIASES, ROUTED_EXPERTS,
    SHARED_EXPERT,
};
use super::reader::{Defaults, declared};
use crate::error::Result;
use crate::source::mapping::{NameTable, join_rules};

pub(super) const QWEN2_MOE: Architecture = Architecture {
    model_types: &["qwen2_moe"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION,
            QKV_BIASES,
            GATED_FFN,
            ROUTED_EXPERTS,
            JOINED_EXPERTS,
            SHARED_EXPERT
        ),
        ignored: IGNORED,
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 151936,
        hidden: 2048,
        ffn: 5632,
        layers: 24,
        heads: 16,
        kv_heads: Some(16),
        head_dim: None,
        max_positions: 32768,
        norm_epsilon: 1e-6,
        theta: 10_000.0,
        tied_head: false,
    })?;
    let types = reader.sliding_layers(model.layers)?;
    let first = reader.fields.u32("max_window_layers")?.unwrap_or(28);
    // Without types, every other of the layers before `max_window_layers`, as transformers 5 has it.
    model.sliding_window = reader.window(&model, reader.window_in_use(Some(4096))?, |layer| match &types {
        Some(types) => types[layer as usize],
        None => layer % 2 == 0 && layer < first,
    });
    let shared = reader.dimension(&["shared_expert_intermediate_size"], 5632)?;
    let defaults = ExpertDefaults { count: 60, used: 4, ffn: 1408, normalize: false };
    let experts = reader.qwen_experts(model.layers, defaults)?;
    model.experts = experts
        .map(|experts| Experts { shared: Some(SharedExperts { ffn: shared, gated: true }), ..experts });
    let biased = reader.fields.bool("qkv_bias")?.unwrap_or(true);
    Ok(SourceConfig { declared: declared(&[AttnQBias, AttnKBias, AttnVBias], biased), model })
}
