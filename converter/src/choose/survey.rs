//! What each type would do to each matrix: measured before types are chosen for a size.
//!
//! The damage of tensor t in type b is taken as `a_t * e_t(b)`. e is the error of the tensor's outputs, `tr(E H E')`, from
//! really quantizing some of its rows; a is measured once: the divergence of the whole model's predictions when only that
//! tensor is in a probe type, over the error there. Embedding and head are measured in every type. Sums of such damages
//! predict well what types together do (docs/quantization.md).

use std::sync::Arc;

use qsf_calibration::{LayerStats, Probe, ProbeText, spread};
use qsf_format::{QuantType, TensorId, TensorKind};
use qsf_runtime::LayerWeights;
use qsf_runtime::compare::ErrorStats;
use qsf_runtime::cpu::{Cpu, decode_row};
use qsf_runtime::source::{Replaced, Tensor};
use serde::{Deserialize, Serialize};

use crate::encode::outliers::Chosen;
use crate::encode::rows::add_outliers;
use crate::encode::tensor::{Job, Tools};
use crate::error::{ConvertError, Result};
use crate::fit::fits::{Fit, Fits};
use crate::fit::passes::EMBEDDING_RECORD;
use crate::fit::statistics::StatsFiles;
use crate::options::OutlierChoice;
use crate::plan::{Candidate, OutlierShare, Plan, PlannedTensor, StoredForm};
use crate::resume::journal::Journal;

/// Types that a matrix of a layer may get, smallest first.
const OF_LAYERS: [QuantType; 7] =
    [QuantType::T2, QuantType::T3, QuantType::N3, QuantType::N4, QuantType::N5, QuantType::Q6, QuantType::Q8];
/// Types that embedding and head may get.
const OF_ENDS: [QuantType; 7] =
    [QuantType::T2, QuantType::T3, QuantType::N3, QuantType::N4, QuantType::N5, QuantType::Q6, QuantType::Q8];
/// The type in which a tensor's effect on the model is measured: damage well above rounding, of every tensor.
const PROBE: QuantType = QuantType::N2;
/// Types that outliers are measured with: from 5 bits on, a bit more costs less than what it takes to pay for them.
const WITH_OUTLIERS: [QuantType; 4] = [QuantType::T2, QuantType::T3, QuantType::N3, QuantType::N4];
/// Shares of the weights that may be stored apart.
const SHARES: [OutlierShare; 2] = [OutlierShare::millionths(1_000), OutlierShare::millionths(5_000)];
/// Part of the output error's energy that the larger share must have for outliers to be tried at all. Half a percent apart
/// costs 0.2 bits a weight, which as a finer type take a quarter of the error; of normally distributed weights it has 5 %.
const LEAST_ENERGY: f64 = 0.1;
/// Rows of a matrix that are quantized in every type: whole groups of 16.
const SAMPLE_ROWS: usize = 128;
/// Tokens of a chunk of the text; a measurement takes some chunks from all over it.
pub(crate) const CHUNK: usize = 512;
/// Chunks for measurements of the whole model.
const PROBE_CHUNKS: usize = 4;
/// Tokens of each. The time of all these measurements grows with the square of a model's depth, and four times as many tokens gave no
/// better choice (docs/quantization.md).
const PROBE_CHUNK: usize = 128;
/// Chunks for the moments that types are compared by: what a matrix is fitted to in the end takes more.
pub(crate) const SURVEY_CHUNKS: usize = 32;
/// Least damage of anything: that a measured divergence is below its noise does not make a tensor free.
const LEAST_DAMAGE: f64 = 1e-9;
/// Most damage of anything, and that of what makes predictions that are no numbers.
pub(crate) const MOST_DAMAGE: f64 = 1e6;

/// One tensor in every type that it may get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SurveyedTensor {
    /// Name of its kind.
    pub kind: String,
    /// Layer, of those that are in one.
    pub layer: Option<u32>,
    /// Forms and damages.
    pub options: Vec<(StoredForm, f64)>,
}

impl SurveyedTensor {
    /// Which tensor.
    pub fn id(&self) -> Option<TensorId> {
        let kind = TensorKind::ALL.iter().copied().find(|kind| kind.name() == self.kind)?;
        Some(TensorId { layer: self.layer, kind })
    }
}

/// What was measured of a layer, or of embedding and head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SurveyedLayer {
    tensors: Vec<SurveyedTensor>,
    /// Divergence of the model without this layer.
    importance: Option<f64>,
}

/// What was measured of a model.
#[derive(Debug)]
pub(crate) struct Survey {
    /// All tensors whose types are to be chosen.
    pub tensors: Vec<SurveyedTensor>,
    /// Divergence of the model's predictions without each layer.
    pub importance: Vec<f32>,
    /// What the head reads in the unchanged model.
    pub head: LayerStats,
}

/// Measures every matrix for which `wanted` says so in the types of `types`, layer by layer; what `journal` has is not
/// measured again.
pub(crate) fn survey(
    job: &Job<'_>,
    wanted: impl Fn(&PlannedTensor) -> bool,
    types: impl Fn(&PlannedTensor) -> Vec<QuantType>,
    stats: &mut StatsFiles,
    journal: &mut Journal,
    tools: &Tools<'_>,
) -> Result<Survey> {
    let Tools { cpu, tokens, cancel, .. } = *tools;
    if !stats.writes()
        && let Some(known) = from_journal(job, journal)?
    {
        return Ok(known);
    }
    let ctx = PROBE_CHUNK.min(tokens.len());
    let probed = spread(tokens, ctx, PROBE_CHUNKS);
    let text = ProbeText { tokens: &probed, ctx, chunks: PROBE_CHUNKS };
    let mut probe = Probe::new(job.source, cpu, text, cancel)?;
    // A file of statistics is of the whole text.
    let heard =
        if stats.writes() { tokens.to_vec() } else { spread(tokens, CHUNK.min(tokens.len()), SURVEY_CHUNKS) };
    let mut survey = Survey { tensors: Vec::new(), importance: Vec::new(), head: LayerStats::default() };
    let source = job.source;
    stats.for_each_layer(source, &Tools { tokens: &heard, ..*tools }, |stats| {
        let name = record_name(stats.layer);
        let known = journal.get(&name)?.and_then(|json| serde_json::from_slice::<SurveyedLayer>(&json).ok());
        let found = match (known, stats.layer) {
            (Some(known), _) => known,
            (None, Some(layer)) => of_layer(job, (&wanted, &types), &mut probe, layer, &stats, cpu)?,
            (None, None) => of_ends(job, (&wanted, &types), &mut probe, &stats)?,
        };
        journal.put_new(&name, &serde_json::to_vec(&found).expect("names and finite numbers are JSON"))?;
        survey.tensors.extend(found.tensors);
        if stats.layer.is_some() {
            survey.importance.push(found.importance.unwrap_or(f64::NAN) as f32);
            probe.advance()?;
        } else {
            survey.head = stats;
        }
        Ok(())
    })?;
    Ok(survey)
}

/// The types among which one is chosen for a size.
pub(crate) fn types_to_choose(planned: &PlannedTensor) -> Vec<QuantType> {
    if planned.info.id.layer.is_some() { OF_LAYERS.into() } else { OF_ENDS.into() }
}

/// The types that a survey would measure, with nothing known about them.
pub(crate) fn unmeasured(plan: &Plan, wanted: impl Fn(&PlannedTensor) -> bool) -> Vec<Candidate> {
    let free = plan.tensors().iter().filter(|planned| wanted(planned));
    free.map(|planned| {
        let options = types_to_choose(planned).into_iter().map(|quant| (form(planned, quant), 0.0)).collect();
        Candidate { id: planned.info.id, options }
    })
    .collect()
}

/// `quant` with the outliers that the plan has for the tensor.
fn form(planned: &PlannedTensor, quant: QuantType) -> StoredForm {
    StoredForm { quant, ..planned.form() }
}

fn record_name(layer: Option<u32>) -> String {
    layer.map_or("survey of ends".to_owned(), |layer| format!("survey of layer {layer}"))
}

/// The whole survey, if a run that was stopped has got so far that nothing needs the statistics again.
fn from_journal(job: &Job<'_>, journal: &mut Journal) -> Result<Option<Survey>> {
    if !journal.has(EMBEDDING_RECORD) {
        return Ok(None);
    }
    let mut survey = Survey { tensors: Vec::new(), importance: Vec::new(), head: LayerStats::default() };
    for layer in (0..job.source.config().layers).map(Some).chain([None]) {
        let json = journal.get(&record_name(layer))?;
        let Some(found) = json.and_then(|json| serde_json::from_slice::<SurveyedLayer>(&json).ok()) else {
            return Ok(None);
        };
        survey.tensors.extend(found.tensors);
        survey.importance.extend(layer.map(|_| found.importance.unwrap_or(f64::NAN) as f32));
    }
    Ok(Some(survey))
}

/// The matrices of a layer.
fn of_layer(
    job: &Job<'_>,
    (wanted, types): (&impl Fn(&PlannedTensor) -> bool, &impl Fn(&PlannedTensor) -> Vec<QuantType>),
    probe: &mut Probe,
    layer: u32,
    stats: &LayerStats,
    cpu: &Cpu,
) -> Result<SurveyedLayer> {
    let mut fits = Fits::of_stats(job.encoder.isa, stats);
    let mut tensors = Vec::new();
    for planned in job.plan.tensors().iter().filter(|t| t.info.id.layer == Some(layer) && wanted(t)) {
        let id = planned.info.id;
        let fit = fits.of(id, None)?;
        let probed = job.store(&as_probe(planned), std::slice::from_ref(&fit))?;
        let mut replaced = Replaced::new(job.source);
        let tables = Arc::new(*job.encoder.tables);
        replaced.replace(id, probed.tensor(job.encoder.block, &tables)?)?;
        let divergence = probe.divergence(&LayerWeights::load(&replaced, layer)?)?;
        let tensor = job.source.load(id)?;
        let sample = Sample::of(job, &tensor);
        // Where the probe's scales leave f16, so do those of all types: the tensor keeps what the plan has for it.
        let Some(probe_error) = sample.error(job, cpu, PROBE.into(), &fit)? else { continue };
        let per_error = within_bounds(divergence) / probe_error.outputs.max(f64::MIN_POSITIVE);
        let (mut options, mut best) = (Vec::new(), 0.0f64);
        for quant in types(planned) {
            // A type that the tensor would not be stored in has another size.
            if job.encoder.choose_type(&planned.info, &tensor, quant)? == quant
                && let Some(error) = sample.error(job, cpu, form(planned, quant), &fit)?
            {
                best = best.max(error.cosine);
                if error.is_allowed(job) {
                    options.push((form(planned, quant), within_bounds(per_error * error.outputs)));
                }
            }
        }
        if options.is_empty() {
            check_reached(job, id, best)?;
        }
        if job.outliers == OutlierChoice::Auto && may_gain(job, &tensor, &sample, &fit)? {
            with_outliers(job, cpu, &tensor, &sample, &fit, per_error, &mut options)?;
        }
        if !options.is_empty() {
            tensors.push(SurveyedTensor { kind: id.kind.name().into(), layer: Some(layer), options });
        }
    }
    Ok(SurveyedLayer { tensors, importance: Some(probe.divergence_without()?) })
}

/// The tensor as it is probed.
fn as_probe(planned: &PlannedTensor) -> PlannedTensor {
    PlannedTensor { quant: PROBE, outliers: OutlierShare::NONE, ..planned.clone() }
}

/// Whether few enough weights of the sample have enough of its energy. Costs next to nothing, and spares most matrices the
/// quantizing.
fn may_gain(job: &Job<'_>, tensor: &Tensor, sample: &Sample, fit: &Fit) -> Result<bool> {
    let most = StoredForm { quant: PROBE, outliers: SHARES[SHARES.len() - 1] }.outliers_in(tensor.cols());
    let rows = sample.values.len() / sample.cols;
    let count = most.count(rows, sample.cols);
    if count == 0 {
        return Ok(false);
    }
    let values = Tensor::from_f32(rows, sample.cols, &sample.values);
    let (_, saliency) = Chosen::new(&job.encoder, &values, 0..rows, count, fit)?;
    Ok(saliency.chosen >= LEAST_ENERGY * saliency.all)
}

/// Adds the forms with outliers to the `options` of a tensor: all of them if the one that is tried first does less damage
/// than a type of its size would, by the two types that it is between.
fn with_outliers(
    job: &Job<'_>,
    cpu: &Cpu,
    tensor: &Tensor,
    sample: &Sample,
    fit: &Fit,
    per_error: f64,
    options: &mut Vec<(StoredForm, f64)>,
) -> Result<()> {
    let block = job.encoder.block;
    let bytes = |form: StoredForm| form.bytes(block, tensor.rows(), tensor.cols()).unwrap_or(u64::MAX) as f64;
    let damage = |form: StoredForm| -> Result<Option<f64>> {
        let found = sample.error(job, cpu, form, fit)?.filter(|error| error.is_allowed(job));
        Ok(found.map(|error| within_bounds(per_error * error.outputs)))
    };
    let known = |quant: QuantType| options.iter().find(|(form, _)| *form == quant.into()).copied();
    let (Some(below), Some(above)) = (known(QuantType::N3), known(QuantType::N4)) else { return Ok(()) };
    let trial = StoredForm { quant: QuantType::N3, outliers: SHARES[SHARES.len() - 1] };
    let Some(tried) = damage(trial)? else { return Ok(()) };
    // Damage falls by about the same factor with each bit.
    let part = (bytes(trial) - bytes(below.0)) / (bytes(above.0) - bytes(below.0));
    if tried >= below.1 * (above.1 / below.1).powf(part) {
        return Ok(());
    }
    // Types that the tensor cannot be stored in are not among the options.
    let possible = WITH_OUTLIERS.into_iter().filter(|quant| known(*quant).is_some()).collect::<Vec<_>>();
    for quant in possible {
        for outliers in SHARES {
            let form = StoredForm { quant, outliers };
            let found = if form == trial { Some(tried) } else { damage(form)? };
            options.extend(found.map(|damage| (form, damage)));
        }
    }
    Ok(())
}

/// Embedding and head. Every form costs a run of the model there, so outliers are those of the plan.
fn of_ends(
    job: &Job<'_>,
    (wanted, types): (&impl Fn(&PlannedTensor) -> bool, &impl Fn(&PlannedTensor) -> Vec<QuantType>),
    probe: &mut Probe,
    stats: &LayerStats,
) -> Result<SurveyedLayer> {
    let mut fits = Fits::of_stats(job.encoder.isa, stats);
    let mut tensors = Vec::new();
    let tied = job.source.config().tied_head;
    for planned in job.plan.tensors().iter().filter(|t| t.info.id.layer.is_none() && wanted(t)) {
        let id = planned.info.id;
        let embedding = id.kind == TensorKind::TokenEmbedding;
        let fit = if embedding && !tied { Fit::default() } else { fits.of(id, None)? };
        let (mut options, mut best) = (Vec::new(), 0.0f64);
        for quant in types(planned) {
            let stored =
                job.store(&PlannedTensor { quant, ..planned.clone() }, std::slice::from_ref(&fit))?;
            best = best.max(stored.record.cosine);
            if stored.encoded.quant != quant || job.min_cosine.is_some_and(|c| stored.record.cosine < c) {
                continue;
            }
            let tables = Arc::new(*job.encoder.tables);
            let mut replaced = Replaced::new(job.source);
            replaced.replace(id, stored.tensor(job.encoder.block, &tables)?)?;
            options.push((form(planned, quant), within_bounds(probe.divergence_of_ends(&replaced)?)));
        }
        if options.is_empty() {
            check_reached(job, id, best)?;
        }
        if !options.is_empty() {
            tensors.push(SurveyedTensor { kind: id.kind.name().into(), layer: None, options });
        }
    }
    Ok(SurveyedLayer { tensors, importance: None })
}

/// Where a cosine is asked for, the `best` of all types of a tensor must have it; 0: none was measured.
fn check_reached(job: &Job<'_>, id: TensorId, best: f64) -> Result<()> {
    match job.min_cosine.filter(|wanted| best > 0.0 && best < *wanted) {
        Some(wanted) => Err(ConvertError::BelowCosine { id, cosine: best, wanted }),
        None => Ok(()),
    }
}

/// A damage that can be added up: not NaN, which `max` alone would make the least of all.
fn within_bounds(damage: f64) -> f64 {
    if damage.is_nan() { MOST_DAMAGE } else { damage.clamp(LEAST_DAMAGE, MOST_DAMAGE) }
}

/// How far the rows of a sample are from the original.
struct SampleError {
    /// Error of the outputs.
    outputs: f64,
    /// Cosine with the original.
    cosine: f64,
}

impl SampleError {
    /// Whether the matrix may be stored so.
    fn is_allowed(&self, job: &Job<'_>) -> bool {
        job.min_cosine.is_none_or(|least| self.cosine >= least)
    }
}

/// Some rows of a matrix.
struct Sample {
    cols: usize,
    values: Vec<f32>,
}

impl Sample {
    /// Groups of 16 neighbouring rows, spread over all.
    fn of(job: &Job<'_>, tensor: &Tensor) -> Sample {
        let groups = tensor.rows().div_ceil(16);
        let step = groups.div_ceil(SAMPLE_ROWS / 16);
        let rows = (0..groups).step_by(step).map(|g| 16 * g..tensor.rows().min(16 * g + 16));
        Sample {
            cols: tensor.cols(),
            values: rows.flat_map(|rows| job.encoder.decode_rows(tensor, rows)).collect(),
        }
    }

    /// What storing the rows as `form` does to their outputs; `None` where its scales would leave f16.
    fn error(&self, job: &Job<'_>, cpu: &Cpu, form: StoredForm, fit: &Fit) -> Result<Option<SampleError>> {
        let (encoder, cols, quant) = (&job.encoder, self.cols, form.quant);
        let rows = self.values.len() / cols;
        let share = form.outliers_in(cols);
        let quantized = if share.is_none() {
            encoder.quantize(quant, cols, &self.values, fit).map(|bytes| (bytes, None))
        } else {
            let values = Tensor::from_f32(rows, cols, &self.values);
            let (chosen, _) = Chosen::new(encoder, &values, 0..rows, share.count(rows, cols), fit)?;
            let quantized = encoder.quantize_apart(quant, cols, &self.values, fit, (&chosen, 0));
            quantized.map(|(bytes, outliers)| (bytes, Some(outliers)))
        };
        let Ok((bytes, outliers)) = quantized else { return Ok(None) };
        let row_bytes = bytes.len() / rows.max(1);
        let mut errors = vec![0.0; self.values.len()];
        for (i, (bytes, row)) in bytes.chunks_exact(row_bytes).zip(errors.chunks_exact_mut(cols)).enumerate()
        {
            decode_row(encoder.isa, quant, encoder.block, encoder.tables, bytes, row);
            if let Some(outliers) = &outliers {
                add_outliers(outliers, i, row);
            }
        }
        let mut stats = ErrorStats::new();
        for (decoded, values) in errors.chunks_exact_mut(cols).zip(self.values.chunks_exact(cols)) {
            stats.add_row(encoder.isa, values, decoded);
            decoded.iter_mut().zip(values).for_each(|(decoded, value)| *decoded -= value);
        }
        Ok(Some(SampleError { outputs: fit.output_error(cpu, cols, &errors), cosine: stats.cosine() }))
    }
}
