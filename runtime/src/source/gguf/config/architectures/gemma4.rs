//! Gemma 4: heads of two widths, layers that share keys and values, an embedding for each layer, experts
//! beside a feed-forward.

use qsf_format::TensorKind::*;
use qsf_format::{Activation, FullAttention, NormPlacement, PerLayerEmbedding as PerLayer, QkNorm, SharedKv};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, Window, rotary};
use super::super::reading::Reading;
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION, ENDS, EXPERTS, FFN, POST_NORMS, PRE_NORMS, QK_NORMS};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(in super::super) const GEMMA4: Architecture = Architecture {
    name: "gemma4",
    model_type: "gemma4_text",
    also: &["gemma4"],
    placement: NormPlacement::PreAndPost,
    activation: Activation::GeluTanh,
    positions: rotary(Some(10_000.0), None, false, false),
    qk_norm: Some(QkNorm::Head),
    scaled_embedding: true,
    window: Window::AllButEvery(6),
    experts: ExpertUse::Maybe("gemma4_text"),
    keys: &[
        "attention.key_length_swa",
        "attention.value_length_swa",
        "attention.shared_kv_layers",
        "embedding_length_per_layer_input",
        "rope.dimension_count_swa",
    ],
    per_layer: &["attention.head_count_kv", "feed_forward_length"],
    more: two_widths,
    table: &TABLE,
    ..LLAMA
};

static TABLE: NameTable =
    table(join_rules!(ENDS, PRE_NORMS, POST_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS, BESIDE, LAYER_INPUTS));

pub(super) const LAYER_INPUTS: &[NameRule] = &[
    rows("per_layer_token_embd.weight", &[PerLayerEmbedding]),
    rows("per_layer_model_proj.weight", &[PerLayerProjection]),
    rows("per_layer_proj_norm.weight", &[PerLayerProjectionNorm]),
    rows("blk.{}.inp_gate.weight", &[PerLayerGate]),
    rows("blk.{}.proj.weight", &[PerLayerUp]),
    rows("blk.{}.post_norm.weight", &[PerLayerNorm]),
    rows("blk.{}.layer_output_scale.weight", &[LayerScale]),
];

/// What experts beside a feed-forward have of their own.
const BESIDE: &[NameRule] = &[
    rows("blk.{}.ffn_gate_inp.scale", &[RouterNorm]),
    rows("blk.{}.ffn_down_exps.scale", &[ExpertScale]),
    rows("blk.{}.pre_ffw_norm_2.weight", &[ExpertNorm]),
    rows("blk.{}.post_ffw_norm_1.weight", &[PostSideNorm]),
    rows("blk.{}.post_ffw_norm_2.weight", &[PostExpertNorm]),
];

fn two_widths(reading: &mut Reading<'_>) -> Result<()> {
    let layers = reading.config.layers;
    let sliding = reading.config.sliding_window.as_ref().map_or(Vec::new(), |window| window.layers.clone());
    let is_full = |layer: &u32| sliding.binary_search(layer).is_err();
    let full_head_dim = reading.config.head_dim;
    let kv_heads = reading.for_each_layer("attention.head_count_kv")?.unwrap_or_default();
    let of = |layer: Option<u32>| layer.and_then(|layer| kv_heads.get(layer as usize).copied());
    let first_full = (0..layers).find(|layer| is_full(layer));
    let full_kv_heads = of(first_full).unwrap_or(reading.config.kv_heads);
    reading.config.kv_heads = of(sliding.first().copied()).unwrap_or(full_kv_heads);
    reading.config.head_dim = reading.number("attention.key_length_swa")?.unwrap_or(full_head_dim);
    let (keys, values) = (reading.layers_with("attn_k.weight"), reading.layers_with("attn_v.weight"));
    let keys_are_values = keys.iter().any(|layer| is_full(layer) && !values.contains(layer));
    reading.config.full_attention =
        Some(FullAttention { kv_heads: full_kv_heads, head_dim: full_head_dim, keys_are_values });
    let config = &mut reading.config;
    config.value_norm = true;
    config.attention_scale = Some(1.0);
    config.layer_scale = true;
    let shared = reading.number("attention.shared_kv_layers")?.unwrap_or(0);
    let widths = reading.for_each_layer("feed_forward_length")?.unwrap_or_default();
    let last = widths.last().copied().filter(|&width| width != reading.config.ffn);
    reading.config.shared_kv = (shared > 0).then_some(SharedKv { layers: shared, ffn: last });
    let width = reading.number("embedding_length_per_layer_input")?.unwrap_or(0);
    let rows = reading.shape("per_layer_token_embd.weight").and_then(|shape| shape.get(1).copied());
    let vocab = rows.and_then(|rows| u32::try_from(rows).ok()).unwrap_or(reading.config.vocab);
    reading.config.per_layer_embedding = (width > 0).then_some(PerLayer { width, vocab });
    if let Some(experts) = &mut reading.config.experts {
        experts.beside_ffn = true;
    }
    Ok(())
}
