//! MiMo-V2-Flash: most layers with a window, more heads of keys and attention sinks there, heads of values of another width, and the
//! router of DeepSeek V3.

use qsf_format::{FullAttention, ValueHeads};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, Window, rotary};
use super::super::reading::Reading;
use super::gpt_oss::SINKS;
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION, ENDS, EXPERTS, FFN, PRE_NORMS};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameTable, join_rules};

pub(in super::super) const MIMO2: Architecture = Architecture {
    name: "mimo2",
    model_type: "mimo_v2_flash",
    also: &[],
    positions: rotary(Some(10_000.0), None, false, false),
    window: Window::AllButEvery(6),
    experts: ExpertUse::Maybe("mimo_v2_flash"),
    router: None,
    head_widths: ["attention.key_length", "attention.key_length"],
    keys: &[
        "attention.value_scale",
        "expert_gating_func",
        "expert_group_count",
        "expert_group_used_count",
        "expert_weights_scale",
        "nextn_predict_layers",
    ],
    per_layer: &["attention.head_count_kv"],
    more: windows,
    table: &TABLE,
    ..LLAMA
};

static TABLE: NameTable = table(join_rules!(ENDS, PRE_NORMS, ATTENTION, SINKS, FFN, EXPERTS));

fn windows(reading: &mut Reading<'_>) -> Result<()> {
    let dim = reading.number("attention.value_length")?.unwrap_or(reading.config.head_dim);
    let scale = reading.factor("attention.value_scale")?;
    let heads = reading.for_each_layer("attention.head_count_kv")?.unwrap_or_default();
    let with_sinks = reading.layers_with("attn_sinks.weight");
    let config = &mut reading.config;
    config.value_heads = Some(ValueHeads { dim, scale });
    config.attention_scale = Some(1.0 / (config.head_dim as f32).sqrt());
    config.attention_sinks = !with_sinks.is_empty();
    let Some(window) = &mut config.sliding_window else { return Ok(()) };
    // Files have the number of positions before that of the query, as the models' own configurations do.
    window.size = window.size.saturating_add(1);
    let slides = |layer: &u32| window.layers.binary_search(layer).is_ok();
    config.window_sinks = config.attention_sinks && with_sinks.iter().all(slides);
    let of_first = |sliding: bool| {
        let first = (0..config.layers).find(|layer| slides(layer) == sliding)?;
        heads.get(first as usize).copied()
    };
    if let Some(kv_heads) = of_first(false) {
        let full = FullAttention { kv_heads, head_dim: config.head_dim, keys_are_values: false };
        config.full_attention = Some(full);
    }
    if let Some(kv_heads) = of_first(true) {
        config.kv_heads = kv_heads;
    }
    Ok(())
}
