//! Size, quality, time and memory of a conversion. Quality is the sum of the damages that the survey measures
//! (docs/quantization.md); it takes as long as the survey of a real conversion.

use std::sync::Arc;
use std::time::Instant;

use qsf_format::{Provenance, TensorKind};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress, Unwatched};
use qsf_runtime::source::WeightSource;

use super::divergence::DivergenceEstimate;
use super::memory::{BUFFERS, bytes_to_write, peak_bytes, resident_bytes};
use super::size::predicted_file_bytes;
use super::time::seconds_of_conversion;
use crate::checks::notes_on_flags;
use crate::choose::{LEAST_TOKENS, SizeRequest, SurveySize, Surveyor, survey};
use crate::encode::TensorEncoder;
use crate::error::Result;
use crate::fit::{StatsFiles, says_importance, tell_parts, with_text};
use crate::foresee::{target_warning, warnings};
use crate::gguf::count_files;
use crate::options::{Calibration, ConvertOptions, OutlierChoice, SearchEffort};
use crate::plan::{Plan, PlannedTensor};
use crate::plan_file::SavedPlan;
use crate::planning::plan_of;
use crate::replay::SurveyedModel;
use crate::resume::NoRecords;
use crate::sections::{TOOL, hash_files, unhashed_files};
use crate::session::Session;

/// What is to be expected of a conversion.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// Which tensor gets which type.
    pub plan: Arc<Plan>,
    /// The text that matrices will be fitted to, where there is one.
    pub calibration: Option<Calibration>,
    /// Bytes of the file, uncompressed, but for the figures of errors in META, which are not known yet: some tens of bytes for
    /// each tensor, rather too many. Tensors that the planned types have no range for are larger, unless a size was asked for.
    pub file_bytes: u64,
    /// Files, where a GGUF model is split.
    pub files: Option<usize>,
    /// Weights of all tensors.
    pub weights: u64,
    /// Divergence from the source in nats per token; `None` without a calibration text, or with one of fewer than 512 tokens.
    pub divergence: Option<DivergenceEstimate>,
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

/// Predicts the conversion of `source` with `options`. Writes nothing but the plan, where that is asked for.
///
/// # Errors
/// When the types do not fit the model, or what is measured of it fails as it would in the conversion itself.
pub fn predict(
    source: &dyn WeightSource,
    options: &ConvertOptions,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Prediction> {
    let mut plan = plan_of(source, options)?;
    if let Some(replay) = &options.replay {
        replay.check_model(source.path(), &hash_files(&source.files(), &[cancel])?)?;
    }
    warnings(source, None, &plan, options).iter().for_each(|warning| progress.warn(warning));
    notes_on_flags(&plan, options).iter().for_each(|note| progress.note(note));
    let resident = resident_bytes();
    let started = Instant::now();
    let written = with_text(source, options, None, &Session { cpu, tokens: &[], progress, cancel })?;
    let options = written.as_ref().map_or(options, |written| &written.options);
    let writing = started.elapsed().as_secs_f64();
    if let Some(calibration) = &options.calibration {
        tell_parts(calibration, progress);
    }
    let tokens = options.calibration.as_ref().map_or(&[][..], |calibration| &calibration.tokens);
    let session = Session { cpu, tokens, progress, cancel };
    let encoder = TensorEncoder::new(source, options, &Session { progress: &Unwatched, ..session });
    let mut stats = StatsFiles::open(source, &options.stats_in, None, tokens, false)?;
    if let Some(replay) = &options.replay {
        replay.check_statistics(stats.texts())?;
    }
    // Types for a size are chosen by what META takes, to the byte: the same as in the conversion itself.
    let hashed = options.size_limit.is_some() || options.save_plan.is_some();
    let sources = if hashed { hash_files(&source.files(), &[cancel])? } else { unhashed_files(source)? };
    let (tool, recorded) = (TOOL.into(), stats.recorded(options));
    let requantized_from = source.quantized_from();
    let provenance = Provenance { tool, sources: sources.clone(), requantized_from, options: recorded };
    let (mut seconds, mut survey) = (writing, None);
    let damage = match options.size_limit.filter(|_| options.replay.is_none()) {
        _ if tokens.is_empty() => None,
        // Without a size the conversion itself surveys nothing.
        None => {
            // A matrix that is too far from the original gets a larger type, which is found when it is encoded.
            let mut encoder =
                TensorEncoder::new(source, options, &Session { progress: &Unwatched, ..session });
            encoder.min_cosine = None;
            Some(damage_of_plan(&encoder, &plan, options.outliers, &mut stats, &session)?)
        }
        Some(limit) => {
            let started = Instant::now();
            let provenance = provenance.clone();
            let wanted = SizeRequest { limit, plan: &plan, options, encoder: &encoder, provenance, session };
            let chosen = wanted.choose(&mut stats, &mut NoRecords)?;
            seconds += started.elapsed().as_secs_f64();
            plan = chosen.plan;
            survey = Some(SurveyedModel { importance: chosen.importance });
            Some(chosen.damage)
        }
    };
    let divergence = damage
        .filter(|_| tokens.len() >= LEAST_TOKENS)
        .map(|damage| DivergenceEstimate::of(damage, widest_quantized(&plan), tokens.len()));
    if let Some(path) = &options.save_plan {
        SavedPlan::of(options, &plan, sources, stats.texts(), survey.as_ref()).write(path, options.force)?;
    }
    seconds += seconds_of_conversion(
        &encoder,
        &plan,
        &mut stats,
        options,
        says_importance(options) && survey.is_none(),
        &session,
    )?;
    let file_bytes = predicted_file_bytes(source, &plan, options, provenance)?;
    target_warning(file_bytes, options).iter().for_each(|warning| progress.warn(warning));
    let files = options.split_size.map(|most| count_files(source, &plan, most)).transpose()?;
    Ok(Prediction {
        file_bytes,
        files,
        weights: plan.weights(),
        divergence,
        peak_bytes: resident
            + BUFFERS
            + peak_bytes(source, &plan, options)?.max(bytes_to_write(source, options)?),
        seconds,
        calibration: options.calibration.clone(),
        plan: Arc::new(plan),
    })
}

/// Columns of the widest matrix that is not stored as floats.
fn widest_quantized(plan: &Plan) -> usize {
    let quantized = plan.tensors().iter().filter(|t| t.info.id.kind.is_matrix() && !t.quant.is_float());
    quantized.map(|tensor| tensor.info.cols).max().unwrap_or(0)
}

/// Sum of the damages of all matrices in their planned types.
fn damage_of_plan(
    encoder: &TensorEncoder<'_>,
    plan: &Plan,
    outliers: OutlierChoice,
    stats: &mut StatsFiles,
    session: &Session<'_>,
) -> Result<f64> {
    let wanted = |planned: &PlannedTensor| {
        planned.info.id.kind.is_matrix()
            && !planned.quant.is_float()
            && planned.info.id.kind != TensorKind::Positions
    };
    let types = |planned: &PlannedTensor| vec![planned.quant];
    let surveyor = Surveyor {
        encoder,
        plan,
        outliers,
        wanted: &wanted,
        size: SurveySize::of(SearchEffort::Normal),
        squares: None,
        types: &types,
        finer: false,
        cpu: session.cpu,
    };
    let found = survey(&surveyor, stats, &mut NoRecords, session)?;
    Ok(found.tensors.iter().filter_map(|tensor| tensor.options.first()).map(|(_, damage)| damage).sum())
}
