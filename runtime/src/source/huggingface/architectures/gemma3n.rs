//! Gemma 3n: an embedding for each layer and shared keys and values as in Gemma 4, several residual streams (AltUp), residuals of
//! low rank beside attention (LAuReL), and gates of which most are 0 in the first layers.

use qsf_format::TensorKind::*;
use qsf_format::{
    ModelConfig, NormPlacement, PerLayerEmbedding as PerLayer, QkNorm, SharedKv, SlidingWindow,
};

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::gemma2::{FOUR_NORMS, softcap};
use super::gemma3::rotation_of_windows;
use super::names::{ATTENTION, GATED_FFN, IGNORED, MODEL, QK_NORMS};
use super::reader::{Defaults, plain};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{Form, NameRule, NameTable, formed, join_rules, rows};

pub(super) const GEMMA3N: Architecture = Architecture {
    model_types: &["gemma3n_text", "gemma3n"],
    base: "model.",
    table: NameTable {
        rules: join_rules!(MODEL, FOUR_NORMS, ATTENTION, QK_NORMS, GATED_FFN, LAYER_INPUTS, STREAMS),
        ignored: IGNORED,
    },
    marks: Marks::tensors(&[AttnNorm, FfnNorm, PostAttnNorm, PostFfnNorm, QNorm, KNorm, StreamRouter]),
    config,
};

const LAYER_INPUTS: &[NameRule] = &[
    rows("embed_tokens_per_layer.weight", &[PerLayerEmbedding]),
    rows("per_layer_model_projection.weight", &[PerLayerProjection]),
    rows("per_layer_projection_norm.weight", &[PerLayerProjectionNorm]),
    rows("layers.{}.per_layer_input_gate.weight", &[PerLayerGate]),
    rows("layers.{}.per_layer_projection.weight", &[PerLayerUp]),
    rows("layers.{}.post_per_layer_input_norm.weight", &[PerLayerNorm]),
];

/// Of up to eight streams; released models have four.
const STREAMS: &[NameRule] = &[
    formed("altup_projections.0.weight", &[StreamProjection], Form::Piece),
    formed("altup_projections.1.weight", &[StreamProjection], Form::Piece),
    formed("altup_projections.2.weight", &[StreamProjection], Form::Piece),
    formed("altup_projections.3.weight", &[StreamProjection], Form::Piece),
    formed("altup_projections.4.weight", &[StreamProjection], Form::Piece),
    formed("altup_projections.5.weight", &[StreamProjection], Form::Piece),
    formed("altup_projections.6.weight", &[StreamProjection], Form::Piece),
    formed("altup_unembed_projections.0.weight", &[StreamReturn], Form::Piece),
    formed("altup_unembed_projections.1.weight", &[StreamReturn], Form::Piece),
    formed("altup_unembed_projections.2.weight", &[StreamReturn], Form::Piece),
    formed("altup_unembed_projections.3.weight", &[StreamReturn], Form::Piece),
    formed("altup_unembed_projections.4.weight", &[StreamReturn], Form::Piece),
    formed("altup_unembed_projections.5.weight", &[StreamReturn], Form::Piece),
    formed("altup_unembed_projections.6.weight", &[StreamReturn], Form::Piece),
    rows("layers.{}.altup.modality_router.weight", &[StreamRouter]),
    rows("layers.{}.altup.router_norm.weight", &[StreamRouterNorm]),
    rows("layers.{}.altup.prediction_coefs.weight", &[StreamPrediction]),
    rows("layers.{}.altup.correction_coefs.weight", &[StreamCorrection]),
    rows("layers.{}.altup.correct_output_scale", &[StreamScale]),
    rows("layers.{}.laurel.linear_left.weight", &[LaurelDown]),
    rows("layers.{}.laurel.linear_right.weight", &[LaurelUp]),
    rows("layers.{}.laurel.post_laurel_norm.weight", &[LaurelNorm]),
];

/// More streams have no names above.
const MOST_STREAMS: u32 = 8;

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let mut model = reader.llama_like(&Defaults {
        vocab: 262_400,
        hidden: 2048,
        ffn: 16_384,
        layers: 35,
        heads: 8,
        kv_heads: Some(2),
        head_dim: Some(256),
        max_positions: 32_768,
        norm_epsilon: 1e-6,
        theta: 1_000_000.0,
        tied_head: true,
    })?;
    let fields = reader.fields;
    reader.only("attention_bias", false)?;
    reader.only("altup_correct_scale", true)?;
    model.activation = reader.activation("hidden_activation", "gelu_pytorch_tanh")?;
    model.norm.placement = NormPlacement::PreAndPost;
    model.embedding_scale = Some(f64::from(model.hidden).sqrt() as f32);
    model.logit_softcap = softcap(reader, "final_logit_softcapping", Some(30.0))?;
    model.qk_norm = Some(QkNorm::Head);
    model.value_norm = true;
    model.attention_scale = Some(1.0);
    let types = reader.sliding_layers(model.layers)?;
    let slides = |layer: u32| match &types {
        Some(types) => types[layer as usize],
        None => !(layer + 1).is_multiple_of(5),
    };
    let layers: Vec<u32> = (0..model.layers).filter(|&layer| slides(layer)).collect();
    if let Some(size) = reader.window_size(Some(512))?.filter(|_| !layers.is_empty()) {
        model.sliding_window = Some(SlidingWindow { size, layers });
    }
    rotation_of_windows(reader, &mut model)?;
    let shared = fields.u32("num_kv_shared_layers")?.unwrap_or(15);
    model.shared_kv = (shared > 0).then_some(SharedKv { layers: shared, ffn: None });
    let width = fields.u32("hidden_size_per_layer_input")?.unwrap_or(256);
    let vocab = fields.u32("vocab_size_per_layer_input")?.unwrap_or(262_144);
    model.per_layer_embedding = Some(PerLayer { width, vocab });
    model.laurel = Some(fields.u32("laurel_rank")?.unwrap_or(64));
    streams(reader, &mut model)?;
    model.gate_sparsity = sparsity(reader, model.layers)?;
    Ok(plain(model))
}

fn streams(reader: &Reader<'_>, model: &mut ModelConfig) -> Result<()> {
    let fields = reader.fields;
    if let Some(active) = fields.u32("altup_active_idx")?.filter(|active| *active != 0) {
        let what = format!("altup_active_idx {active}");
        return Err(RuntimeError::unsupported(fields.path, what, "only 0 is"));
    }
    let streams = fields.u32("altup_num_inputs")?.unwrap_or(4);
    if !(2..=MOST_STREAMS).contains(&streams) {
        let what = format!("altup_num_inputs {streams}");
        return Err(RuntimeError::unsupported(fields.path, what, format!("2 to {MOST_STREAMS} are")));
    }
    model.streams = Some(streams);
    Ok(())
}

/// Which part of the gates of each layer is made 0; nothing where it is none in all.
fn sparsity(reader: &Reader<'_>, layers: u32) -> Result<Vec<f32>> {
    let (fields, name) = (reader.fields, "activation_sparsity_pattern");
    let all = match fields.get(name) {
        Some(_) => fields.need_f32s(name)?,
        None => (0..layers).map(|layer| if layers > 10 && layer < 10 { 0.95 } else { 0.0 }).collect(),
    };
    if all.len() != layers as usize {
        return Err(fields.wrong(name, format!("one number for each of {layers} layers"), all.len()));
    }
    if let Some(wrong) = all.iter().find(|sparsity| !(0.0..1.0).contains(*sparsity)) {
        return Err(fields.wrong(name, "numbers from 0 to below 1", wrong));
    }
    Ok(if all.iter().any(|sparsity| *sparsity > 0.0) { all } else { Vec::new() })
}
