//! What a conversion will give and take, before it is made: size, quality, time and memory.
//!
//! The size follows from the plan. Time is that of small samples, taken now on this machine, times the work. Memory follows
//! from shapes. Quality is the sum of the damages that the survey measures (docs/quantization.md); it takes as long as the
//! survey of a real conversion.

use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use qsf_calibration::{Detail, LayerStats, exit_layers, for_each_layer};
use qsf_format::{CodeTables, Provenance, QuantType, SourceFile, TensorId, TensorKind};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::memory;
use qsf_runtime::progress::{Cancel, Progress, Unwatched};
use qsf_runtime::source::{WeightSource, file_bytes};
use sha2::{Digest, Sha256};

use crate::choose::survey::survey;
use crate::convert::{choose_types, meta_bytes};
use crate::encode::tensor::{Job, Tools, experts_of};
use crate::error::{ConvertError, Result};
use crate::fit::fits::{Fit, Fits};
use crate::fit::statistics::StatsFiles;
use crate::options::ConvertOptions;
use crate::plan::{Plan, PlannedTensor, SizeModel, layout_of};
use crate::resume::journal::Journal;

/// Tokens of a sample of the text.
const SAMPLE_TOKENS: usize = 512;
/// Values of a matrix that a thread quantizes for a sample.
const SAMPLE_VALUES: usize = 1 << 16;
/// Bytes that are hashed for a sample.
const SAMPLE_BYTES: usize = 16 << 20;
/// Matrices as large as the moment of an input that are in memory at once for it: sums of the input and across the two
/// streams, the moment, two orders of it with their factors, and the correction.
const COPIES_OF_MOMENTS: u64 = 8;
/// Copies of moments in memory where statistics are collected and nothing is fitted: the sums, and some of them on their way into
/// the file.
const COPIES_OF_SUMS: u64 = 2;
/// Values of a tensor of the model as a whole that are encoded before they are written (`job.rs`).
const VALUES_PER_RUN: u64 = 1 << 23;
/// What the smallest conversions take beside tensors: buffers for hashing and compressing, and stacks of threads.
const BUFFERS: u64 = 8 << 20;
/// Bytes of logits that the survey keeps (calibration/src/probe.rs).
const PROBE_LOGITS: u64 = 64 << 20;

/// What finding clusters takes beside the model and the rows of its head.
const CLUSTER_BUFFERS: u64 = 16 << 20;
/// Memory for each byte of a text while it becomes tokens, measured on 518 kB of prose.
const BYTES_PER_TEXT_BYTE: u64 = 128;
/// This part more is kept free for each of several conversions that share a machine: of three models in four types, the largest took
/// 1.32 times what shapes say.
const MARGIN: u64 = 2;

/// What is to be expected of a conversion.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// Which tensor gets which type.
    pub plan: Arc<Plan>,
    /// Bytes of the file, uncompressed, but for the figures of errors in META, which are not known yet: some tens of bytes for
    /// each tensor, rather too many. Tensors that the planned types have no range for are larger, unless a size was asked for.
    pub file_bytes: u64,
    /// Weights of all tensors.
    pub weights: u64,
    /// Divergence from the source in nats per token; `None` without a calibration text.
    pub divergence: Option<f64>,
    /// Peak of resident memory.
    pub peak_bytes: u64,
    /// Wall time without waiting for disks.
    pub seconds: f64,
}

impl Prediction {
    /// Bits of the whole file per weight.
    pub fn bits_per_weight(&self) -> f64 {
        self.file_bytes as f64 * 8.0 / self.weights.max(1) as f64
    }
}

/// Predicts the conversion of `source` with `options`. Writes nothing but temporary files.
///
/// # Errors
/// As [`convert`](crate::convert()).
pub fn predict(
    source: &dyn WeightSource,
    options: &ConvertOptions,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Prediction> {
    let plan = Plan::new(source.tensors(), options.recipe, &options.overrides, options.outliers.share())?;
    let base = resident_bytes();
    let folder = tempfile::tempdir().map_err(|e| ConvertError::io(&std::env::temp_dir(), "write", e))?;
    let out = folder.path().join("dry-run.qsf");
    let tables = CodeTables::default();
    let tokens = options.calibration.as_ref().map_or(&[][..], |calibration| &calibration.tokens);
    let tools = Tools { cpu, tokens, progress, cancel };
    let mut job = Job::begin(source, &out, plan, options, &tables, &Tools { progress: &Unwatched, ..tools })?;
    let mut stats = StatsFiles::open(source, &options.stats_in, None, tokens, false)?;
    let mut seconds = 0.0;
    let divergence = match options.size_limit {
        _ if tokens.is_empty() => None,
        limit => {
            let started = Instant::now();
            let mut journal = Journal::open(&out, &[0; 32], true)?;
            let damage = match limit {
                Some(limit) => {
                    let provenance = provenance(source, options)?;
                    choose_types(&mut job, limit, provenance, options, &mut stats, &mut journal, &tools)?
                        .damage
                }
                None => damage_of_plan(&job, &mut stats, &mut journal, &tools)?,
            };
            // Without a size the conversion itself surveys nothing.
            if limit.is_some() {
                seconds += started.elapsed().as_secs_f64();
            }
            Some(damage)
        }
    };
    seconds += seconds_of_conversion(&job, &mut stats, !options.stats_in.is_empty(), &tools)?;
    let sections = sections(&job, options)?;
    let size = SizeModel {
        config: source.config(),
        block: options.block,
        layout: options.layout,
        sections: &sections,
    };
    Ok(Prediction {
        file_bytes: size.file_bytes(&job.plan),
        weights: job.weights(),
        divergence,
        peak_bytes: base + BUFFERS + peak_bytes(source, &job.plan, options)?,
        seconds,
        plan: job.plan,
    })
}

/// Peak of resident memory of the conversion of `source` with `options`, on top of what this process has taken for opening
/// the model and its texts: from shapes, in no time.
///
/// # Errors
/// When the types do not fit the model, or its files cannot be read.
pub fn predict_peak(source: &dyn WeightSource, options: &ConvertOptions) -> Result<u64> {
    let plan = Plan::new(source.tensors(), options.recipe, &options.overrides, options.outliers.share())?;
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
            file.saturating_add(file_bytes(source)? + logits + BYTES_PER_TEXT_BYTE * text.text.len() as u64)
        }
        None => 0,
    };
    let most = conversion.max(clusters).max(exits).max(evaluation).saturating_add(BUFFERS);
    Ok(most.saturating_add(most / MARGIN).saturating_add(resident_bytes()))
}

/// Sum of the damages of all matrices in their planned types.
fn damage_of_plan(
    job: &Job<'_>,
    stats: &mut StatsFiles,
    journal: &mut Journal,
    tools: &Tools<'_>,
) -> Result<f64> {
    let lossy = |planned: &PlannedTensor| {
        planned.info.id.kind.is_matrix()
            && !planned.quant.is_float()
            && planned.info.id.kind != TensorKind::Positions
    };
    let types = |planned: &PlannedTensor| vec![planned.quant];
    let found = survey(job, lossy, types, stats, journal, tools)?;
    Ok(found.tensors.iter().filter_map(|tensor| tensor.options.first()).map(|(_, damage)| damage).sum())
}

/// Where a file comes from, with hashes that are none: they take as much room as real ones.
fn provenance(source: &dyn WeightSource, options: &ConvertOptions) -> Result<Provenance> {
    let mut sources = Vec::new();
    for path in source.files() {
        let bytes = fs::metadata(&path).map_err(|e| ConvertError::io(&path, "read", e))?.len();
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let sha256 = qsf_runtime::file_hash::sha256(name.as_bytes());
        sources.push(SourceFile { name, bytes, sha256 });
    }
    let (tool, requantized_from) = (crate::sections::provenance::TOOL.into(), source.quantized_from());
    Ok(Provenance { tool, sources, requantized_from, options: options.normalised() })
}

/// Stored bytes of the sections that are no tensors.
fn sections(job: &Job<'_>, options: &ConvertOptions) -> Result<Vec<u64>> {
    let mut sizes = vec![meta_bytes(job, provenance(job.source, options)?)?];
    for section in [job.source.tokenizer_json(), job.source.chat_template()].into_iter().flatten() {
        sizes.push(qsf_format::stored_section_bytes(section)?);
    }
    let types: Vec<QuantType> = job.plan.tensors().iter().map(|planned| planned.quant).collect();
    let grids = job.encoder.tables.to_bytes(&types).len() as u64;
    sizes.extend((grids > 0).then_some(grids));
    Ok(sizes)
}

/// Time of everything but the survey, from samples.
fn seconds_of_conversion(
    job: &Job<'_>,
    stats: &mut StatsFiles,
    by_statistics: bool,
    tools: &Tools<'_>,
) -> Result<f64> {
    let (source, layers) = (job.source, f64::from(job.source.config().layers));
    let mut seconds =
        seconds_of_hashing(source)? / if tools.tokens.is_empty() { tools.cpu.threads() as f64 } else { 1.0 };
    let mut first = None;
    if !tools.tokens.is_empty() {
        // The first run also reads the layer.
        time_of_layer(tools, source, Detail::Diagonal)?;
        let (forward, _) = time_of_layer(tools, source, Detail::Diagonal)?;
        let (measured, found) = time_of_layer(tools, source, Detail::Full)?;
        let chunks = tools.tokens.len() as f64 / SAMPLE_TOKENS.min(tools.tokens.len()) as f64;
        // Both streams through every layer, the quantized one twice, and moments of it and across the two.
        let passes = 2.0 * measured + forward + if source.config().tied_head { forward } else { 0.0 };
        seconds += layers * chunks * passes;
        first = Some(found);
    } else if by_statistics {
        first = Some(stats.layer(0)?);
    }
    let mut fits = first.as_ref().map(|stats| Fits::of_stats(job.encoder.isa, stats));
    if let Some(fits) = &mut fits {
        let started = Instant::now();
        for planned in job.plan.tensors().iter().filter(|planned| planned.info.id.layer == Some(0)) {
            black_box(fits.all(job, planned.info.id)?);
        }
        seconds += layers * started.elapsed().as_secs_f64();
    }
    let mut types: Vec<QuantType> = job.plan.tensors().iter().map(|planned| planned.quant).collect();
    types.sort_unstable_by_key(|quant| quant.id());
    types.dedup();
    for quant in types {
        let of_type = || job.plan.tensors().iter().filter(|planned| planned.quant == quant);
        let Some(sample) =
            of_type().max_by_key(|planned| (planned.info.id.layer == Some(0), planned.info.rows))
        else {
            continue;
        };
        let values: f64 = of_type().map(|planned| planned.info.rows as f64 * planned.info.cols as f64).sum();
        seconds += values * seconds_per_value(job, sample, fits.as_mut(), tools.cpu)?;
    }
    Ok(seconds)
}

/// What encoding a value of `planned` takes.
fn seconds_per_value(
    job: &Job<'_>,
    planned: &PlannedTensor,
    fits: Option<&mut Fits<'_>>,
    cpu: &Cpu,
) -> Result<f64> {
    let (info, quant) = (&planned.info, planned.quant);
    let tensor = job.source.load(info.id)?;
    let layout = layout_of(job.layout, job.source.config(), info, quant);
    let mut fit = Fit::default();
    if let Some(fits) = fits.filter(|_| info.id.kind.is_matrix()) {
        // Outside of the first layer the work is that of any input as wide.
        let kinds = [info.id.kind, TensorKind::AttnQ, TensorKind::FfnDown];
        for kind in kinds {
            let found = fits.of(TensorId::of_layer(0, kind), job.experts(info.id).map(|_| 0))?;
            if found.importance.as_ref().is_some_and(|columns| columns.len() == tensor.cols()) {
                fit = found;
                break;
            }
        }
    }
    let rows =
        (SAMPLE_VALUES * cpu.threads() / tensor.cols().max(1)).next_multiple_of(16).clamp(1, tensor.rows());
    let encode = || job.encoder.encode(info, &tensor, 0..rows, (quant, layout), &fit, None);
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
fn time_of_layer(tools: &Tools<'_>, source: &dyn WeightSource, detail: Detail) -> Result<(f64, LayerStats)> {
    let tokens = &tools.tokens[..tools.tokens.len().min(SAMPLE_TOKENS)];
    let (mut found, started) = (LayerStats::default(), Instant::now());
    let run = for_each_layer::<Stop>(source, tools.cpu, tokens, detail, &Unwatched, tools.cancel, |stats| {
        found = stats;
        Err(Stop::Seen)
    });
    match run {
        Err(Stop::Failed(error)) => Err(error.into()),
        _ => Ok((started.elapsed().as_secs_f64(), found)),
    }
}

/// Memory that the conversion takes on top of what the process has now, from shapes.
fn peak_bytes(source: &dyn WeightSource, plan: &Plan, options: &ConvertOptions) -> Result<u64> {
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
        let run = VALUES_PER_RUN.min(values(t)) as f64 / values(t).max(1) as f64;
        stored(t) + 2 * (encoded(t) as f64 * run) as u64
    });
    let fitted = tokens > 0 || !options.stats_in.is_empty();
    if !fitted {
        return Ok(one_layer.max(largest));
    }
    let moments = moments_bytes(source);
    let hidden = 4 * tokens * u64::from(config.hidden);
    let ends: u64 = of_model().map(|t| stored(t) + encoded(t)).sum();
    let streams = ends + one_layer + 2 * hidden + COPIES_OF_MOMENTS * moments;
    if options.size_limit.is_none() {
        return Ok(streams);
    }
    // The survey keeps the whole model in use.
    let source: u64 = tensors.iter().map(stored).sum();
    let survey = source
        + hidden
        + COPIES_OF_MOMENTS / 2 * moments
        + PROBE_LOGITS.min(4 * 1024 * u64::from(config.vocab));
    Ok(streams.max(survey))
}

/// The sums of products of all inputs of a layer.
fn moments_bytes(source: &dyn WeightSource) -> u64 {
    // Each distinct input once, as wide as its widest reader.
    let mut widths = std::collections::BTreeMap::new();
    for info in source.tensors().iter().filter(|t| t.id.layer == Some(0) && t.id.kind.is_matrix()) {
        use TensorKind::*;
        let (input, copies) = match info.id.kind {
            AttnQ | AttnK | AttnV => (0, 1),
            AttnOutput => (1, 1),
            FfnDown => (2, 1),
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
    let hidden = 4 * tokens as u64 * u64::from(config.hidden);
    let most = weights + hidden + COPIES_OF_SUMS * moments_bytes(source) + BUFFERS;
    Ok(most.saturating_add(most / MARGIN).saturating_add(resident_bytes()))
}

/// Resident memory of this process now; a common figure where the system does not tell.
fn resident_bytes() -> u64 {
    memory::resident().unwrap_or(16 << 20)
}
