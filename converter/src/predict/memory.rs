//! Peak of resident memory, from shapes: it takes no time to know.

use std::collections::BTreeMap;

use qsf_calibration::exit_layers;
use qsf_format::TensorKind;
use qsf_runtime::source::{WeightSource, file_bytes};
use qsf_runtime::{LayerRunner, memory};

use super::time::SAMPLE_TOKENS;
use crate::encode::VALUES_PER_RUN;
use crate::error::Result;
use crate::fit::{
    gradient_tokens, head_groups, head_tokens, moment_rows, probed_tokens, says_importance, uses_gradients,
    writing_bytes,
};
use crate::options::{ConvertOptions, SearchEffort};
use crate::plan::{Plan, PlannedTensor, experts_of};
use crate::planning::plan_of;
use crate::tune::{aside_tokens, kept_tokens, tuned_tokens};

/// Matrices as large as the moment of an input that are in memory at once for it: the moment in two orders, each with its factor,
/// and the correction or the moment before damping.
const COPIES_OF_MOMENTS: u64 = 5;
/// Such matrices where statistics are collected and nothing is fitted: the sums, and some of them on their way into the file.
const COPIES_OF_SUMS: u64 = 2;
/// What the smallest conversions take beside tensors: buffers for hashing and compressing, and stacks of threads.
pub(super) const BUFFERS: u64 = 8 << 20;
/// Bytes of logits that the survey keeps (calibration/src/probe.rs).
const PROBE_LOGITS: u64 = 64 << 20;

/// The forms of a matrix that a choice checked on the whole model holds: its own, the next larger and the next smaller one.
const FORMS_OF_A_MATRIX: u64 = 3;

/// Logits whose gradients are computed at once (calibration/src/gradient/pass.rs), and copies of them.
const GRADIENT_LOGITS: u64 = 1 << 22;
const COPIES_OF_LOGITS: u64 = 3;
/// Bytes of a matrix of rows by rows that feedback across rows takes: half of one in f64 while it is factored, and its factor.
const FACTOR_BYTES: u64 = 12;

/// What finding clusters takes beside the model and the rows of its head.
const CLUSTER_BUFFERS: u64 = 16 << 20;
/// This part more is what a conversion itself may take: of 18 of different kinds, the one furthest above took 1.45 times what
/// shapes say. What is run afterwards is what its file says.
const MARGIN: u64 = 2;

/// Peak of resident memory of the conversion of `source` with `options`, on top of what this process has taken for opening
/// the model and its texts: from shapes, in no time.
///
/// # Errors
/// When the types do not fit the model, or its files cannot be read.
pub fn predict_peak(source: &dyn WeightSource, options: &ConvertOptions) -> Result<u64> {
    let plan = plan_of(source, options)?;
    let conversion = peak_bytes(source, &plan, options)?;
    let planned = plan.predicted_bytes(options.block).unwrap_or(u64::MAX);
    let (file, config) = (options.size_limit.unwrap_or(planned), source.config());
    // What is written is run as a whole, for one of these after the other.
    let clusters = options.clusters.as_ref().map_or(0, |_| {
        let head = 4 * u64::from(config.vocab) * u64::from(config.hidden);
        file.saturating_add(CLUSTER_BUFFERS + 2 * head)
    });
    // What each exit reads of every token, once more while its classifier is learned, and the logits of a chunk.
    let exits = options.early_exit.as_ref().map_or(0, |text| {
        let read = exit_layers(config.layers as usize).len() as u64 * u64::from(config.hidden);
        let logits = 4 * text.tokens.len().min(SAMPLE_TOKENS) as u64 * u64::from(config.vocab);
        file.saturating_add(2 * 4 * read * text.tokens.len() as u64 + logits)
    });
    let evaluation = match &options.evaluation {
        Some(text) => {
            let logits = 2 * 4 * text.ctx as u64 * u64::from(config.vocab);
            file.saturating_add(file_bytes(source)? + logits)
        }
        None => 0,
    };
    let conversion = conversion.saturating_add(BUFFERS);
    let conversion = conversion.saturating_add(conversion / MARGIN);
    let afterwards = clusters.max(exits).max(evaluation).saturating_add(2 * BUFFERS);
    let before = bytes_to_write(source, options)?.saturating_add(BUFFERS);
    Ok(before.max(conversion).max(afterwards).saturating_add(resident_bytes()))
}

/// Memory that the model takes to write the calibration text, where it does.
pub(super) fn bytes_to_write(source: &dyn WeightSource, options: &ConvertOptions) -> Result<u64> {
    if options.has_model_write() { writing_bytes(source) } else { Ok(0) }
}

/// Memory that the conversion takes on top of what the process has now, from shapes.
pub(super) fn peak_bytes(source: &dyn WeightSource, plan: &Plan, options: &ConvertOptions) -> Result<u64> {
    let (config, tensors) = (source.config(), plan.tensors());
    let tokens = options.calibration.as_ref().map_or(0, |calibration| calibration.tokens.len() as u64);
    let values = |planned: &PlannedTensor| planned.info.rows as u64 * planned.info.cols as u64;
    let encoded = |planned: &PlannedTensor| {
        let (rows, cols) = (planned.info.rows as u64, planned.info.cols as u64);
        planned.quant.tensor_bytes(options.block, rows, cols).unwrap_or(u64::MAX)
    };
    let per_value = file_bytes(source)? as f64 / tensors.iter().map(values).sum::<u64>().max(1) as f64;
    let stored = |planned: &PlannedTensor| (values(planned) as f64 * per_value) as u64;
    let layer = |bytes: &dyn Fn(&PlannedTensor) -> u64| {
        let of =
            |layer| tensors.iter().filter(move |t| t.info.id.layer == Some(layer)).map(bytes).sum::<u64>();
        (0..config.layers).map(of).max().unwrap_or(0)
    };
    let of_model = || tensors.iter().filter(|t| t.info.id.layer.is_none());
    // What of the source is mapped stays resident while it is in use; what is encoded is copied once more to be written.
    let one_layer = layer(&stored) + 2 * layer(&encoded);
    let largest = of_model().max_by_key(|t| values(t)).map_or(0, |t| {
        let run = (VALUES_PER_RUN as u64).min(values(t)) as f64 / values(t).max(1) as f64;
        stored(t) + 2 * (encoded(t) as f64 * run) as u64
    });
    let fitted = tokens > 0 || !options.stats_in.is_empty();
    if !fitted {
        return Ok(one_layer.max(largest));
    }
    let moments = moments_bytes(source);
    let hidden = 4 * tokens * config.stream_width() as u64;
    let ends: u64 = of_model().map(|t| stored(t) + encoded(t)).sum();
    let mut streams = ends + one_layer + 2 * hidden + COPIES_OF_MOMENTS * moments;
    if uses_gradients(source, options.effort, tokens as usize) {
        let squares =
            |layer| moment_rows(source, layer).map(|rows| rows.saturating_mul(rows)).collect::<Vec<u64>>();
        let of_layers: Vec<Vec<u64>> = (0..config.layers).map(squares).collect();
        let layer_squares = of_layers.iter().map(|squares| squares.iter().sum::<u64>()).max().unwrap_or(0);
        let most_square = of_layers.iter().flatten().copied().max().unwrap_or(0);
        let most_values = tensors.iter().filter(|t| t.info.id.layer.is_some()).map(values).max().unwrap_or(0);
        let backwards = ends
            + 4 * of_model().map(values).sum::<u64>()
            + 4 * layer(&values)
            + 4 * layer_squares
            + gradient_bytes(source, options.effort, tokens);
        streams += layer_squares + FACTOR_BYTES * most_square + 4 * most_values;
        streams = streams.max(backwards);
    }
    let tuned = tuned_tokens(source, options.effort, tokens as usize);
    if tuned > 0 {
        // The model as it is stored, and once more with all that is multiplied; gradients of a layer, and of what is in none; what
        // leaves the last layer for the text that is kept aside.
        let stored: u64 =
            tensors.iter().map(encoded).sum::<u64>().min(options.size_limit.unwrap_or(u64::MAX));
        let of_model: u64 = of_model().map(values).sum();
        let aside = 3 * 4 * aside_tokens(tuned) as u64 * config.stream_width() as u64;
        let states = states_bytes(source, kept_tokens(source) as u64).max(aside);
        streams = streams.max(2 * stored + ends + one_layer + 8 * of_model + 8 * layer(&values) + states);
    }
    // What the head reads of the text, and the moments of groups of tokens with what quantizers make of them.
    let heard = head_tokens(config, options.effort, tokens as usize);
    if heard > 0 {
        let groups = head_groups(source, heard) as u64 * u64::from(config.hidden).pow(2);
        let hidden = 4 * heard as u64 * config.stream_width() as u64;
        streams = streams.max(ends + one_layer.max(4 * COPIES_OF_MOMENTS * groups) + hidden);
    }
    // Every model that misses a layer has hidden states of its own, and the probe logits twice.
    let importance = if says_importance(options) {
        let probed = probed_tokens(source, tokens as usize) as u64;
        let logits = PROBE_LOGITS.min(4 * probed * u64::from(config.vocab));
        let models = u64::from(config.layers) + 1;
        ends + one_layer + 4 * probed * models * config.stream_width() as u64 + 2 * logits
    } else {
        0
    };
    if options.size_limit.is_none() {
        return Ok(streams.max(importance));
    }
    // The survey holds a layer of the model that its probe runs, and one that it encodes.
    let survey = ends
        + 2 * one_layer
        + hidden
        + COPIES_OF_MOMENTS * moments
        + PROBE_LOGITS.min(4 * 1024 * u64::from(config.vocab));
    // A choice that is checked on the whole model holds each matrix in its type and the next ones.
    let variants = match options.effort {
        SearchEffort::Max => FORMS_OF_A_MATRIX * options.size_limit.unwrap_or(0),
        SearchEffort::Low | SearchEffort::Normal | SearchEffort::High => 0,
    };
    Ok(streams.max(survey + variants))
}

/// What gradients of as many tokens as the effort takes need beside weights.
fn gradient_bytes(source: &dyn WeightSource, effort: SearchEffort, tokens: u64) -> u64 {
    states_bytes(source, gradient_tokens(source, effort, tokens as usize) as u64)
}

/// What enters all layers, twice what leaves the last one, and what a sequence leaves between the parts of a layer.
fn states_bytes(source: &dyn WeightSource, tokens: u64) -> u64 {
    let config = source.config();
    let sequence = LayerRunner::chunk_of(config) as u64;
    let rows = source.tensors().iter().filter(|t| t.id.layer == Some(0) && t.id.kind.is_matrix());
    let between: u64 = rows.map(|info| (info.rows + info.cols) as u64).sum();
    let kept = tokens * config.stream_width() as u64 * (u64::from(config.layers) + 2);
    let logits = COPIES_OF_LOGITS * GRADIENT_LOGITS.min(sequence * u64::from(config.vocab));
    4 * (kept + logits + 2 * sequence * between + 2 * u64::from(config.heads) * sequence * sequence)
}

/// The sums of products of all inputs of a layer.
fn moments_bytes(source: &dyn WeightSource) -> u64 {
    // Each distinct input once, as wide as its widest reader.
    let mut widths = BTreeMap::new();
    for info in source.tensors().iter().filter(|t| t.id.layer == Some(0) && t.id.kind.is_matrix()) {
        use TensorKind::*;
        let (input, copies) = match info.id.kind {
            AttnQ if source.config().latent.is_some() => (10, 1),
            AttnQ | AttnK | AttnV | AttnQDown | AttnKvDown | AttnGate => (0, 1),
            MixerIn | MixerGate | MixerStep | MixerBeta => (0, 1),
            AttnKUp => (11, 1),
            AttnVUp => (12, 1),
            AttnOutput => (1, 1),
            MixerOutput => (13, 1),
            MixerSelect => (14, 1),
            MixerStepUp => (15, 1),
            FfnDown | SharedDown => (2, 1),
            ExpertGate | ExpertUp => (3, experts_of(source.config(), info.id).unwrap_or(1)),
            ExpertDown => (4, experts_of(source.config(), info.id).unwrap_or(1)),
            _ => (5, 1),
        };
        widths.insert(input, u64::from(copies) * (info.cols as u64).pow(2));
    }
    4 * widths.values().sum::<u64>()
}

/// Peak of resident memory of collecting statistics of `tokens` tokens, in a process such as this: from shapes, in no time.
///
/// # Errors
/// When the model's files cannot be looked at.
pub fn predict_statistics_peak(source: &dyn WeightSource, tokens: usize) -> Result<u64> {
    let (config, tensors) = (source.config(), source.tensors());
    let values = |layer: Option<u32>| {
        let of_layer = tensors.iter().filter(move |t| t.id.layer == layer);
        of_layer.map(|t| t.rows as u64 * t.cols as u64).sum::<u64>()
    };
    let layer = (0..config.layers).map(|layer| values(Some(layer))).max().unwrap_or(0);
    let all = tensors.iter().map(|t| t.rows as u64 * t.cols as u64).sum::<u64>().max(1);
    let per_value = file_bytes(source)? as f64 / all as f64;
    // What of the source is mapped stays resident while it is in use: the ends all the time, one layer after another.
    let weights = ((values(None) + layer) as f64 * per_value) as u64;
    let hidden = 4 * tokens as u64 * config.stream_width() as u64;
    let most = weights + hidden + COPIES_OF_SUMS * moments_bytes(source) + BUFFERS;
    Ok(most.saturating_add(most / MARGIN).saturating_add(resident_bytes()))
}

/// Resident memory of this process now; a common figure where the system does not tell.
pub(super) fn resident_bytes() -> u64 {
    memory::resident().unwrap_or(16 << 20)
}
