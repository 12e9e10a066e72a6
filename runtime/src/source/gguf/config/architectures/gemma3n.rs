//! Gemma 3n: several residual streams (AltUp), residuals of low rank beside attention (LAuReL), gates of which most are 0 in some
//! layers, and an embedding for each layer as in Gemma 4.

use qsf_format::TensorKind::*;
use qsf_format::{Activation, NormPlacement, PerLayerEmbedding as PerLayer, QkNorm, SharedKv};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, Window, rotary};
use super::super::reading::Reading;
use super::gemma4::LAYER_INPUTS;
use crate::error::{Result, RuntimeError};
use crate::normal;
use crate::source::gguf::name_groups::{ATTENTION, ENDS, FFN, POST_NORMS, PRE_NORMS, QK_NORMS};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(in super::super) const GEMMA3N: Architecture = Architecture {
    name: "gemma3n",
    model_type: "gemma3n_text",
    also: &["gemma3n"],
    placement: NormPlacement::PreAndPost,
    activation: Activation::GeluTanh,
    positions: rotary(Some(10_000.0), None, false, false),
    qk_norm: Some(QkNorm::Head),
    scaled_embedding: true,
    window: Window::AllButEvery(5),
    experts: ExpertUse::Never,
    keys: &[
        "activation_sparsity_scale",
        "altup.active_idx",
        "altup.num_inputs",
        "attention.shared_kv_layers",
        "embedding_length_per_layer_input",
    ],
    per_layer: &["feed_forward_length"],
    more: streams,
    table: &TABLE,
    ..LLAMA
};

static TABLE: NameTable =
    table(join_rules!(ENDS, PRE_NORMS, POST_NORMS, ATTENTION, QK_NORMS, FFN, LAYER_INPUTS, STREAMS));

const STREAMS: &[NameRule] = &[
    rows("altup_proj.weight", &[StreamProjection]),
    rows("altup_unembd_proj.weight", &[StreamReturn]),
    rows("blk.{}.altup_router.weight", &[StreamRouter]),
    rows("blk.{}.altup_router_norm.weight", &[StreamRouterNorm]),
    rows("blk.{}.altup_predict_coef.weight", &[StreamPrediction]),
    rows("blk.{}.altup_correct_coef.weight", &[StreamCorrection]),
    rows("blk.{}.altup_correct_scale.weight", &[StreamScale]),
    rows("blk.{}.laurel_l.weight", &[LaurelDown]),
    rows("blk.{}.laurel_r.weight", &[LaurelUp]),
    rows("blk.{}.laurel_post_norm.weight", &[LaurelNorm]),
];

fn streams(reading: &mut Reading<'_>) -> Result<()> {
    if let Some(active) = reading.number("altup.active_idx")?.filter(|&active| active != 0) {
        let what = format!("gemma3n.altup.active_idx = {active}");
        return Err(RuntimeError::unsupported(reading.file.path(), what, "only 0 is"));
    }
    reading.config.streams = Some(reading.needed("altup.num_inputs")?);
    // Fastest first: the inputs, then the rank.
    let rank = reading.shape("blk.0.laurel_l.weight").and_then(|shape| shape.get(1).copied());
    reading.config.laurel = rank.and_then(|rank| u32::try_from(rank).ok());
    reading.config.value_norm = true;
    reading.config.attention_scale = Some(1.0);
    let shared = reading.number("attention.shared_kv_layers")?.unwrap_or(0);
    reading.config.shared_kv = (shared > 0).then_some(SharedKv { layers: shared, ffn: None });
    let width = reading.needed("embedding_length_per_layer_input")?;
    let rows = reading.shape("per_layer_token_embd.weight").and_then(|shape| shape.get(1).copied());
    let vocab = rows.and_then(|rows| u32::try_from(rows).ok()).unwrap_or(reading.config.vocab);
    reading.config.per_layer_embedding = Some(PerLayer { width, vocab });
    let quantiles = reading.fractions("activation_sparsity_scale")?.unwrap_or_default();
    let sparsity: Vec<f32> = quantiles.into_iter().map(part_below).collect();
    if sparsity.iter().any(|part| *part > 0.0) {
        reading.config.gate_sparsity = sparsity;
    }
    Ok(())
}

/// The quantile that files have of such a part.
pub(in crate::source::gguf) fn quantile_of(part: f32) -> f32 {
    if part == 0.0 { f32::NEG_INFINITY } else { normal::normal_quantile(part) }
}

/// How large a part of a standard normal distribution is below `quantile`: the shortest decimal number that has this quantile, as
/// such parts are chosen by people and files have the quantile in 32 bits.
fn part_below(quantile: f32) -> f32 {
    let part = normal::part_below(f64::from(quantile));
    if part.is_nan() || part == 0.0 {
        return 0.0;
    }
    // How far the quantile is from another in the last of its bits, and a few more that torch loses.
    let near = f64::from(quantile.abs().max(1.0)) * 1e-6;
    let [low, high] = [-near, near].map(|by| normal::part_below(f64::from(quantile) + by));
    let rounded = |digits: i32| {
        let unit = 10f64.powi(digits);
        (part * unit).round() / unit
    };
    (1..9).map(rounded).find(|part| (low..=high).contains(part)).unwrap_or(part) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_numbers_that_people_chose() {
        // What torch.distributions.Normal(0, 1).icdf gives in float32.
        let quantiles = [1.644_853_6, 0.0, -0.841_621_3, f32::NEG_INFINITY, 3.090_236_2, f32::NAN];
        assert_eq!(quantiles.map(part_below), [0.95, 0.5, 0.2, 0.0, 0.999, 0.0]);
    }
}
