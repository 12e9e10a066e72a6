//! Gemma 4: Gemma 3 with gains as they are, norms of values, wider heads without a window, layers that share keys and values,
//! and an embedding for each layer.

use qsf_format::TensorKind::*;
use qsf_format::printable::quote;
use qsf_format::{
    Experts, FullAttention, ModelConfig, PerLayerEmbedding as PerLayer, PositionConfig, QkNorm, RopeScaling,
    SharedKv, SlidingWindow,
};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::gemma2::{FOUR_NORMS, softcap};
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, QK_NORMS};
use super::reader::{Defaults, plain};
use super::rope::Rope;
use crate::error::{Result, RuntimeError};
use crate::model_dir::Fields;
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const GEMMA4: Architecture = Architecture {
    model_types: &["gemma4_text", "gemma4"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, FOUR_NORMS, ATTENTION, QK_NORMS, GATED_FFN, LAYER_INPUTS, EXPERTS),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[AttnNorm, FfnNorm, PostAttnNorm, PostFfnNorm, QNorm, KNorm, LayerScale]),
    config,
};

/// Widest heads of any model.
const MAX_HEAD_DIM: u32 = 1 << 16;

/// A frequency of what is not rotated is divided by this, so that nothing is left of it.
const NO_ROTATION: f32 = 1e30;

const LAYER_INPUTS: &[NameRule] = &[
    rows("embed_tokens_per_layer.weight", &[PerLayerEmbedding]),
    rows("per_layer_model_projection.weight", &[PerLayerProjection]),
    rows("per_layer_projection_norm.weight", &[PerLayerProjectionNorm]),
    rows("layers.{}.per_layer_input_gate.weight", &[PerLayerGate]),
    rows("layers.{}.per_layer_projection.weight", &[PerLayerUp]),
    rows("layers.{}.post_per_layer_input_norm.weight", &[PerLayerNorm]),
    rows("layers.{}.layer_scalar", &[LayerScale]),
];

/// Experts beside the feed-forward, joined as transformers saves them.
const EXPERTS: &[NameRule] = &[
    rows("layers.{}.router.proj.weight", &[Router]),
    rows("layers.{}.router.scale", &[RouterNorm]),
    rows("layers.{}.router.per_expert_scale", &[ExpertScale]),
    formed("layers.{}.experts.gate_up_proj", &[ExpertGate, ExpertUp], Form::ExpertByExpert),
    rows("layers.{}.experts.down_proj", &[ExpertDown]),
    rows("layers.{}.pre_feedforward_layernorm_2.weight", &[ExpertNorm]),
    rows("layers.{}.post_feedforward_layernorm_1.weight", &[PostSideNorm]),
    rows("layers.{}.post_feedforward_layernorm_2.weight", &[PostExpertNorm]),
];

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let defaults = Defaults {
        vocab: 262_144,
        hidden: 2304,
        ffn: 9216,
        layers: 30,
        heads: 8,
        kv_heads: Some(4),
        head_dim: Some(256),
        max_positions: 131_072,
        norm_epsilon: 1e-6,
        theta: 1_000_000.0,
        tied_head: true,
    };
    let fields = reader.fields;
    reader.only("attention_bias", false)?;
    if fields.str("use_bidirectional_attention")? == Some("all") {
        let what = "use_bidirectional_attention \"all\"";
        return Err(RuntimeError::unsupported(fields.path, what, "attention to earlier tokens is"));
    }
    let heads = reader.dimension(&["num_attention_heads"], defaults.heads)?;
    let hidden = reader.dimension(&["hidden_size"], defaults.hidden)?;
    let (head_dim, kv_heads) = reader.heads(hidden, heads, defaults.head_dim, defaults.kv_heads)?;
    let layers = reader.layers(&["num_hidden_layers"], defaults.layers)?;
    let full = full_attention(reader, kv_heads)?;
    let positions = fields.u32("max_position_embeddings")?.unwrap_or(defaults.max_positions);
    let rope = Rope { position: position(fields, head_dim, full.head_dim)?, max_positions: positions };
    let mut model = reader.llama_of(&defaults, (heads, kv_heads, head_dim), rope)?;
    model.activation = reader.activation("hidden_activation", "gelu_pytorch_tanh")?;
    model.norm.placement = qsf_format::NormPlacement::PreAndPost;
    model.embedding_scale = Some((model.hidden as f32).sqrt());
    model.logit_softcap = softcap(reader, "final_logit_softcapping", None)?;
    model.qk_norm = Some(QkNorm::Head);
    model.value_norm = true;
    model.attention_scale = Some(1.0);
    model.layer_scale = true;
    model.full_attention = Some(full);
    let sliding = sliding_layers(reader, layers)?;
    let size =
        reader.window_size(Some(512))?.ok_or_else(|| fields.wrong("sliding_window", "a number", "null"))?;
    model.sliding_window = (!sliding.is_empty()).then_some(SlidingWindow { size, layers: sliding });
    shared_layers(reader, &mut model)?;
    model.experts = experts(reader)?;
    Ok(plain(model))
}

/// Experts beside the feed-forward of every layer, where the model has them.
fn experts(reader: &Reader<'_>) -> Result<Option<Experts>> {
    let fields = reader.fields;
    if fields.bool("enable_moe_block")? != Some(true) {
        return Ok(None);
    }
    let need = |name: &'static str| -> Result<u32> {
        fields.u32(name)?.ok_or_else(|| fields.wrong(name, "a number, as enable_moe_block is true", "none"))
    };
    Ok(Some(Experts {
        count: need("num_experts")?,
        used: need("top_k_experts")?,
        ffn: need("moe_intermediate_size")?,
        normalize_weights: true,
        beside_ffn: true,
        ..Experts::default()
    }))
}

/// Layers that share keys and values, perhaps with a wider feed-forward, and embeddings of layers.
fn shared_layers(reader: &Reader<'_>, model: &mut ModelConfig) -> Result<()> {
    let fields = reader.fields;
    let shared = fields.u32("num_kv_shared_layers")?.unwrap_or(0);
    let wide = fields.bool("use_double_wide_mlp")?.unwrap_or(false);
    model.shared_kv =
        (shared > 0).then(|| SharedKv { layers: shared, ffn: wide.then(|| model.ffn.saturating_mul(2)) });
    let width = fields.u32("hidden_size_per_layer_input")?;
    let width = if fields.map.contains_key("hidden_size_per_layer_input") { width.unwrap_or(0) } else { 256 };
    let vocab = fields.u32("vocab_size_per_layer_input")?.unwrap_or(262_144);
    model.per_layer_embedding = (width > 0).then_some(PerLayer { width, vocab });
    Ok(())
}

/// The last layer has no window, whatever is said of it.
fn sliding_layers(reader: &Reader<'_>, layers: u32) -> Result<Vec<u32>> {
    let types = reader.sliding_layers(layers)?;
    let slides = |layer: u32| match &types {
        Some(types) => types[layer as usize],
        None => !(layer + 1).is_multiple_of(6),
    };
    Ok((0..layers.saturating_sub(1)).filter(|&layer| slides(layer)).collect())
}

/// Heads of layers without a window: by `global_head_dim` and `num_global_key_value_heads`, or by `per_layer_config`, which
/// transformers 5 writes in their place.
fn full_attention(reader: &Reader<'_>, kv_heads: u32) -> Result<FullAttention> {
    let fields = reader.fields;
    let keys_are_values = fields.bool("attention_k_eq_v")?.unwrap_or(false);
    let mut full = FullAttention { kv_heads, head_dim: 512, keys_are_values };
    if let Some(by_layer) = fields.object("per_layer_config", "per_layer_config.")? {
        let mut first = None;
        for layer in by_layer.map.keys() {
            let Some(of_layer) = by_layer.object(layer, "per_layer_config.")? else { continue };
            let found = (of_layer.u32("head_dim")?, of_layer.u32("num_key_value_heads")?);
            if *first.get_or_insert(found) != found {
                let what = "per_layer_config with several shapes of attention";
                return Err(RuntimeError::unsupported(
                    fields.path,
                    what,
                    "one for all layers without a window is",
                ));
            }
        }
        if let Some((head_dim, kv_heads)) = first {
            full.head_dim = head_dim.unwrap_or(fields.u32("head_dim")?.unwrap_or(256));
            full.kv_heads = kv_heads.unwrap_or(full.kv_heads);
        }
        return Ok(full);
    }
    full.head_dim = fields.u32("global_head_dim")?.unwrap_or(512);
    let global = fields.u32("num_global_key_value_heads")?.filter(|_| keys_are_values);
    full.kv_heads = global.unwrap_or(full.kv_heads);
    Ok(full)
}

/// The rotation of layers with a window is that of whole heads. That of others leaves the last pairs as they are: frequencies are
/// those of whole heads all the same.
fn position(fields: Fields<'_>, head_dim: u32, full_dim: u32) -> Result<PositionConfig> {
    let all = fields.object("rope_parameters", "rope_parameters.")?;
    let of_type = |name: &'static str| match all {
        Some(all) => all.object(name, "rope_parameters."),
        None => Ok(None),
    };
    let (full, sliding) = (of_type("full_attention")?, of_type("sliding_attention")?);
    if all.is_some() && full.is_none() {
        return Err(fields.wrong("rope_parameters", "full_attention in it", "none"));
    }
    let kind = match full {
        Some(full) => full.str("rope_type")?.unwrap_or("default"),
        None => "proportional",
    };
    let number = |set: Option<Fields<'_>>, name: &str, default: f64| -> Result<f64> {
        Ok(set.map_or(Ok(None), |set| set.f64(name))?.unwrap_or(default))
    };
    let theta = number(full, "rope_theta", 1e6)? as f32;
    let sliding_theta = number(sliding, "rope_theta", 1e4)? as f32;
    if let Some(other) =
        sliding.map_or(Ok(None), |set| set.str("rope_type"))?.filter(|kind| *kind != "default")
    {
        let what = format!("rotary scaling {} of layers with a window", quote(other));
        return Err(RuntimeError::unsupported(fields.path, what, "only default is"));
    }
    // A factor for each pair is written down: not for any number that a file may name.
    if full_dim > MAX_HEAD_DIM {
        return Err(fields.wrong("global_head_dim", format!("at most {MAX_HEAD_DIM}"), full_dim));
    }
    let pairs = full_dim as usize / 2;
    let scaling = match kind {
        "default" => None,
        "proportional" => {
            let part = number(full, "partial_rotary_factor", if full.is_some() { 1.0 } else { 0.25 })?;
            let factor = number(full, "factor", 1.0)? as f32;
            let rotated = ((part * f64::from(full_dim) / 2.0).floor() as usize).min(pairs);
            let factors = [vec![factor; rotated], vec![NO_ROTATION; pairs - rotated]].concat();
            (rotated < pairs || factor != 1.0).then_some(RopeScaling::Factors { factors })
        }
        other => {
            let what = format!("rotary scaling {}", quote(other));
            return Err(RuntimeError::unsupported(fields.path, what, "supported: default, proportional"));
        }
    };
    // Layers with a window take no scaling, and heads of another width.
    let same = scaling.is_none() && theta == sliding_theta && head_dim == full_dim;
    let sliding_theta = (!same).then_some(sliding_theta);
    Ok(PositionConfig::Rope { theta, scaling, dims: None, sliding_theta, unrotated_layers: Vec::new() })
}
