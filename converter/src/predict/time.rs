//! Time of everything but the survey: that of small samples, taken now on this machine, times the work.

use std::hint::black_box;
use std::time::Instant;

use qsf_calibration::{Detail, LayerStats, for_each_layer};
use qsf_format::{TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::Unwatched;
use qsf_runtime::source::{WeightSource, file_bytes};
use sha2::{Digest, Sha256};

use crate::encode::{BlockForm, Fit, TensorEncoder};
use crate::error::Result;
use crate::fit::{Fits, StatsFiles, gradient_tokens, head_tokens, probed_tokens, uses_gradients};
use crate::options::{ConvertOptions, SearchEffort};

use crate::plan::{Plan, PlannedTensor, TensorType, experts_of, layout_of};
use crate::session::Session;
use crate::tune::tuned_tokens;

/// Tokens of a sample of the text.
pub(super) const SAMPLE_TOKENS: usize = 512;
/// How many times as long as a layer forwards its gradients take, with its part of the head's.
const GRADIENT_PASSES: f64 = 8.0;
/// How many times as long as a layer forwards a step of tuning takes for a token of it, with its part of the head's.
const TUNING_PASSES: f64 = 10.0;
/// Values of a matrix that a thread quantizes for a sample.
const SAMPLE_VALUES: usize = 1 << 16;
/// Bytes that are hashed for a sample.
const SAMPLE_BYTES: usize = 16 << 20;

/// Time of everything but the survey, from samples; with `says_importance` layers are left out one by one.
pub(super) fn seconds_of_conversion(
    encoder: &TensorEncoder<'_>,
    plan: &Plan,
    stats: &mut StatsFiles,
    options: &ConvertOptions,
    says_importance: bool,
    session: &Session<'_>,
) -> Result<f64> {
    let source = encoder.source;
    let layers = f64::from(source.config().layers);
    let mut seconds = seconds_of_hashing(source)?
        / if session.tokens.is_empty() { session.cpu.threads() as f64 } else { 1.0 };
    let mut first = None;
    if !session.tokens.is_empty() {
        // The first run also reads the layer.
        time_of_layer(session, source, Detail::Diagonal)?;
        let (forward, _) = time_of_layer(session, source, Detail::Diagonal)?;
        let (measured, found) = time_of_layer(session, source, Detail::Full)?;
        let chunks = session.tokens.len() as f64 / SAMPLE_TOKENS.min(session.tokens.len()) as f64;
        // Both streams through every layer, the quantized one twice, and moments of it and across the two.
        let heard = head_tokens(source.config(), options.effort, session.tokens.len()) as f64;
        let passes = 2.0 * measured + forward * (1.0 + heard / session.tokens.len() as f64);
        seconds += layers * chunks * passes;
        // With low effort types are chosen by them, which is done.
        if options.effort != SearchEffort::Low && uses_gradients(source, options.effort, session.tokens.len())
        {
            let part = gradient_tokens(source, options.effort, session.tokens.len()) as f64
                / session.tokens.len() as f64;
            seconds += layers * chunks * part * GRADIENT_PASSES * forward;
        }
        let tuned = tuned_tokens(source, options.effort, session.tokens.len());
        seconds += layers * chunks * tuned as f64 / session.tokens.len() as f64 * TUNING_PASSES * forward;
        if says_importance {
            // Behind each layer run all models that miss one before.
            let models = (layers + 1.0) / 2.0;
            let probed = probed_tokens(source, session.tokens.len()) as f64;
            seconds += layers * models * forward * probed / SAMPLE_TOKENS.min(session.tokens.len()) as f64;
        }
        first = Some(found);
    } else if !options.stats_in.is_empty() {
        first = Some(stats.layer(0)?);
    }
    let mut fits = first.map(|stats| Fits::of_stats(encoder.rows.isa, stats));
    if let Some(fits) = &mut fits {
        let started = Instant::now();
        for planned in plan.tensors().iter().filter(|planned| planned.info.id.layer == Some(0)) {
            black_box(fits.all(source.config(), planned.info.id)?);
        }
        seconds += layers * started.elapsed().as_secs_f64();
    }
    let mut types: Vec<TensorType> = plan.tensors().iter().map(|planned| planned.quant).collect();
    types.sort_unstable_by_key(|quant| quant.name());
    types.dedup();
    for quant in types {
        let of_type = || plan.tensors().iter().filter(|planned| planned.quant == quant);
        let Some(sample) =
            of_type().max_by_key(|planned| (planned.info.id.layer == Some(0), planned.info.rows))
        else {
            continue;
        };
        let values: f64 = of_type().map(|planned| planned.info.rows as f64 * planned.info.cols as f64).sum();
        seconds += values * seconds_per_value(encoder, sample, fits.as_mut(), session.cpu)?;
    }
    Ok(seconds)
}

/// What encoding a value of `planned` takes.
fn seconds_per_value(
    encoder: &TensorEncoder<'_>,
    planned: &PlannedTensor,
    fits: Option<&mut Fits>,
    cpu: &Cpu,
) -> Result<f64> {
    let (info, quant) = (&planned.info, planned.quant);
    let (tensor, config) = (encoder.source.load(info.id)?, encoder.source.config());
    let form = BlockForm { quant, layout: layout_of(encoder.layout, config, info, quant) };
    let mut fit = Fit::default();
    if let Some(fits) = fits.filter(|_| info.id.kind.is_matrix()) {
        // Outside of the first layer the work is that of any input as wide.
        let kinds = [info.id.kind, TensorKind::AttnQ, TensorKind::FfnDown];
        for kind in kinds {
            let found = fits.of(TensorId::of_layer(0, kind), experts_of(config, info.id).map(|_| 0))?;
            if found.importance.as_ref().is_some_and(|columns| columns.len() == tensor.cols()) {
                fit = found;
                break;
            }
        }
    }
    let rows =
        (SAMPLE_VALUES * cpu.threads() / tensor.cols().max(1)).next_multiple_of(16).clamp(1, tensor.rows());
    let encode = || encoder.rows.encode(info, &tensor, 0..rows, form, &fit, None);
    // The first run reads the rows, and prepares what all rows share.
    black_box(encode()?);
    let started = Instant::now();
    black_box(encode()?);
    Ok(started.elapsed().as_secs_f64() / (rows * tensor.cols()) as f64)
}

/// Time of hashing every file of the source on one thread.
fn seconds_of_hashing(source: &dyn WeightSource) -> Result<f64> {
    let sample = vec![1; SAMPLE_BYTES];
    let started = Instant::now();
    black_box(Sha256::digest(&sample));
    Ok(file_bytes(source)? as f64 * started.elapsed().as_secs_f64() / SAMPLE_BYTES as f64)
}

/// Why a run through the layers ends.
enum Stop {
    Seen,
    Failed(RuntimeError),
}

impl From<RuntimeError> for Stop {
    fn from(error: RuntimeError) -> Stop {
        Stop::Failed(error)
    }
}

/// Runs a chunk of the text through the first layer; the time, and what was seen.
fn time_of_layer(
    session: &Session<'_>,
    source: &dyn WeightSource,
    detail: Detail,
) -> Result<(f64, LayerStats)> {
    let tokens = &session.tokens[..session.tokens.len().min(SAMPLE_TOKENS)];
    let (mut found, started) = (LayerStats::default(), Instant::now());
    let run =
        for_each_layer::<Stop>(source, session.cpu, tokens, detail, &Unwatched, session.cancel, |stats| {
            found = stats;
            Err(Stop::Seen)
        });
    match run {
        Err(Stop::Failed(error)) => Err(error.into()),
        _ => Ok((started.elapsed().as_secs_f64(), found)),
    }
}
