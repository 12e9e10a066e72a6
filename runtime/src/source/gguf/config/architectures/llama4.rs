//! Llama 4: attention within chunks, every fourth layer without rotation and over all positions, experts beside one for all tokens.
//! Files leave out what all released models have in common.

use qsf_format::{PositionConfig, QkNorm, QueryGrowth, RouterScore, SlidingWindow};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, PAIRS, Window};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION_PAIRS, ENDS, EXPERTS, FFN, PRE_NORMS, SHARED_EXPERTS};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameTable, join_rules};

pub(in super::super) const LLAMA4: Architecture = Architecture {
    name: "llama4",
    model_type: "llama4_text",
    also: &["llama4"],
    positions: PAIRS,
    window: Window::AllButEvery(INTERVAL),
    default_window: Some(CHUNK),
    experts: ExpertUse::Always,
    normalize_weights: false,
    router: Some(RouterScore::Sigmoid),
    keys: &["interleave_moe_layer_step", "expert_shared_count", "expert_gating_func"],
    more: chunks,
    table: &TABLE,
    ..LLAMA
};

static TABLE: NameTable = table(join_rules!(ENDS, PRE_NORMS, ATTENTION_PAIRS, FFN, EXPERTS, SHARED_EXPERTS));

/// Positions that attend to each other in layers with rotation, and those whose queries in layers without grow alike
/// (`attention_chunk_size`, `floor_scale`).
const CHUNK: u32 = 8192;
/// Every so manieth layer is without rotation (`no_rope_layer_interval`).
const INTERVAL: u32 = 4;
/// Of queries in layers without rotation (`attn_scale`).
const GROWTH: f32 = 0.1;
/// Experts of Maverick, the one model without norms of queries and keys.
const WITHOUT_NORMS: u32 = 128;

fn chunks(reading: &mut Reading<'_>) -> Result<()> {
    let config = &mut reading.config;
    if let Some(experts) = &mut config.experts {
        experts.weigh_inputs = true;
        config.qk_norm = (experts.count != WITHOUT_NORMS).then_some(QkNorm::RotatedHeadPlain);
    }
    let Some(SlidingWindow { size, layers: chunked }) = &config.sliding_window else { return Ok(()) };
    let unrotated = (0..config.layers).filter(|layer| !chunked.contains(layer)).collect();
    config.window_chunks = *size < config.max_positions;
    if !config.window_chunks {
        config.sliding_window = None;
    }
    if let PositionConfig::Rope { unrotated_layers, .. } = &mut config.position {
        *unrotated_layers = unrotated;
    }
    config.query_growth =
        Some(QueryGrowth { factor: GROWTH, original_positions: CHUNK, from_one: true, unrotated_only: true });
    Ok(())
}
