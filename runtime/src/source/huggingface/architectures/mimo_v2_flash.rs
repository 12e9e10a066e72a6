//! MiMo-V2-Flash: most layers with a window, more heads of keys and attention sinks there, heads of values of another width, and
//! the router of DeepSeek V3.

use qsf_format::TensorKind::*;
use qsf_format::{FullAttention, ModelConfig, PositionConfig, SlidingWindow, ValueHeads};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::names::{
    ATTENTION, CHOICE_BIAS, GATED_FFN, JOINED_EXPERTS, MODEL, PRE_NORMS, QKV_BIASES, ROUTED_EXPERTS,
};
use super::reader::Defaults;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(super) const MIMO_V2_FLASH: Architecture = Architecture {
    model_types: &["mimo_v2_flash"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(
            MODEL,
            PRE_NORMS,
            ATTENTION,
            QKV_BIASES,
            SINKS,
            GATED_FFN,
            ROUTED_EXPERTS,
            JOINED_EXPERTS,
            CHOICE_BIAS
        ),
        ignored: &[".rotary_emb.inv_freq", "mtp.", "model.mtp."],
    },
    marks: Marks::BY_NAME,
    config,
};

/// As the hub has them, and as transformers calls them in memory.
const SINKS: &[NameRule] = &[
    rows("layers.{}.self_attn.attention_sink_bias", &[AttnSinks]),
    rows("layers.{}.self_attn.sinks", &[AttnSinks]),
];

/// Part of a head that is rotated.
const ROTATED: (f64, &str) = (0.334, "partial_rotary_factor");

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let fields = reader.fields;
    let mut model = reader.llama_like_part(
        &Defaults {
            vocab: 152_576,
            hidden: 4096,
            ffn: 16_384,
            layers: 48,
            heads: 64,
            kv_heads: Some(4),
            head_dim: Some(192),
            max_positions: 131_072,
            norm_epsilon: fields.f32("layernorm_epsilon")?.unwrap_or(1e-5),
            theta: 5_000_000.0,
            tied_head: false,
        },
        Some(ROTATED),
    )?;
    model.attention_scale = Some(1.0 / (model.head_dim as f32).sqrt());
    windows(reader, &mut model)?;
    rotation(reader, &mut model)?;
    let scale = match fields.map.contains_key("attention_value_scale") {
        true => fields.f32("attention_value_scale")?,
        false => Some(0.707),
    };
    let dim = fields.u32("v_head_dim")?.unwrap_or(128);
    model.value_heads = Some(ValueHeads { dim, scale: scale.filter(|scale| *scale != 1.0) });
    model.experts = experts(reader, &model)?;
    Ok(SourceConfig {
        declared: reader.declare("attention_bias", &[AttnQBias, AttnKBias, AttnVBias])?,
        model,
    })
}

/// Layers with a window, by `layer_types`, or by the list of the first files: all but the first and every sixth.
fn windows(reader: &Reader<'_>, model: &mut ModelConfig) -> Result<()> {
    let fields = reader.fields;
    let (types, pattern) =
        (reader.sliding_layers(model.layers)?, marks(reader, "hybrid_layer_pattern", model.layers)?);
    let slides = |layer: u32| match (&types, &pattern) {
        (Some(types), _) => types[layer as usize],
        (None, Some(pattern)) => pattern[layer as usize],
        (None, None) => layer != 0 && !(layer + 1).is_multiple_of(6),
    };
    let layers: Vec<u32> = (0..model.layers).filter(|&layer| slides(layer)).collect();
    // These count the positions before that of the query.
    let before = fields.u32("sliding_window_size")?.map(|size| size.saturating_add(1));
    let size = before.or(reader.window_size(Some(129))?);
    let own = fields.u32("swa_num_key_value_heads")?;
    let (of_full, doubled) = (model.kv_heads, model.kv_heads.saturating_mul(2));
    for (name, expected) in [
        ("swa_head_dim", Some(model.head_dim)),
        ("swa_num_attention_heads", Some(model.heads)),
        ("swa_v_head_dim", fields.u32("v_head_dim")?),
    ] {
        if let Some(found) = fields.u32(name)?.filter(|found| Some(*found) != expected) {
            let what = format!("{name} {found}, which is not that of the other layers");
            return Err(RuntimeError::unsupported(fields.path, what, "the same is"));
        }
    }
    reader.only("add_full_attention_sink_bias", false)?;
    if layers.is_empty() {
        return Ok(());
    }
    let size = size.ok_or_else(|| fields.wrong("sliding_window", "a number", "null"))?;
    if layers.len() < model.layers as usize {
        let full = FullAttention { kv_heads: of_full, head_dim: model.head_dim, keys_are_values: false };
        model.full_attention = Some(full);
    }
    model.kv_heads = own.unwrap_or(doubled);
    model.sliding_window = Some(SlidingWindow { size, layers });
    model.attention_sinks = fields.bool("add_swa_attention_sink_bias")?.unwrap_or(true);
    model.window_sinks = model.attention_sinks;
    Ok(())
}

/// The base of layers with a window, which is another.
fn rotation(reader: &Reader<'_>, model: &mut ModelConfig) -> Result<()> {
    let new = reader.fields.object("rope_parameters", "rope_parameters.")?;
    let by_type = new.is_some_and(|new| new.get("sliding_attention").is_some());
    if let PositionConfig::Rope { theta, scaling, sliding_theta, .. } = &mut model.position {
        let own = reader.fields.f32("swa_rope_theta")?;
        let local = sliding_theta.or(own).unwrap_or(if by_type { *theta } else { 10_000.0 });
        let there = model.sliding_window.is_some();
        *sliding_theta = (there && (local != *theta || scaling.is_some())).then_some(local);
    }
    Ok(())
}

/// Experts in all layers but those that `mlp_layer_types`, or the list of the first files, says to be dense.
fn experts(reader: &Reader<'_>, model: &ModelConfig) -> Result<Option<qsf_format::Experts>> {
    let fields = reader.fields;
    reader.only_str("scoring_func", "sigmoid")?;
    let dense: Vec<u32> =
        match (reader.dense_layers(model.layers)?, marks(reader, "moe_layer_freq", model.layers)?) {
            (Some(dense), _) => dense,
            (None, Some(sparse)) => (0..model.layers).filter(|&layer| !sparse[layer as usize]).collect(),
            (None, None) => vec![0],
        };
    if dense.len() == model.layers as usize {
        return Ok(None);
    }
    let mut experts = reader.deepseek_experts(model.layers, [256, 8, 2048, 0, 0])?;
    if let Some(experts) = &mut experts {
        experts.dense_layers = dense;
        if experts.shared.is_some() {
            let what = "n_shared_experts of this architecture";
            return Err(RuntimeError::unsupported(fields.path, what, "it has none"));
        }
    }
    Ok(experts)
}

/// A list of 0 and 1, one for each layer.
fn marks(reader: &Reader<'_>, name: &str, layers: u32) -> Result<Option<Vec<bool>>> {
    match reader.fields.u32s(name)? {
        Some(marks) if marks.len() == layers as usize => {
            Ok(Some(marks.iter().map(|mark| *mark != 0).collect()))
        }
        Some(marks) => {
            Err(reader.fields.wrong(name, format!("one for each of {layers} layers"), marks.len()))
        }
        None => Ok(None),
    }
}
