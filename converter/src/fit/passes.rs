//! Conversion that looks at what the model computes: types chosen for a size, and every matrix fitted to its inputs.

use std::sync::Arc;

use qsf_calibration::{LayerStats, StreamOptions, run_streams};
use qsf_format::{CodeTables, TensorId, TensorKind};
use qsf_runtime::source::Replaced;

use crate::encode::stored_tensor as stored;
use crate::encode::tensor::{Job, Tools};
use crate::error::{ConvertError, Result};
use crate::fit::along_model::Sequential;
use crate::fit::fits::{Fit, Fits};
use crate::fit::statistics::StatsFiles;
use crate::options::SearchEffort;
use crate::resume::journal::Journal;
use crate::resume::tensor_cache::KeptTensors;

/// The journal's record of the token embedding.
pub(crate) const EMBEDDING_RECORD: &str = "embedding";

/// Encodes and writes all tensors of a job. `head` holds what the head reads, and `importance` what each layer is worth,
/// where a survey has measured them.
pub(crate) fn write_fitted(
    job: &mut Job<'_>,
    journal: &mut Journal,
    tables: &Arc<CodeTables>,
    surveyed: Option<(LayerStats, Vec<f32>)>,
    stats: &mut StatsFiles,
    effort: SearchEffort,
    tools: &Tools<'_>,
) -> Result<()> {
    let Tools { cpu, tokens, progress, cancel } = *tools;
    let source = job.source;
    let (head, importance) = match surveyed {
        Some(surveyed) => surveyed,
        None if journal.has(EMBEDDING_RECORD) && !stats.writes() => (LayerStats::default(), Vec::new()),
        None if source.config().tied_head || stats.writes() => (stats.head(source, tools)?, Vec::new()),
        // Neither the embedding nor anyone else needs it.
        None => (LayerStats::default(), Vec::new()),
    };
    let embedding = TensorId::of_model(TensorKind::TokenEmbedding);
    let stored = match journal.get(EMBEDDING_RECORD)?.as_deref().map(stored::from_bytes) {
        Some(Some(known)) => known,
        _ => {
            let tied = source.config().tied_head;
            let fit = if tied {
                Fits::of_stats(job.encoder.isa, &head).of(embedding, None)?
            } else {
                Fit::default()
            };
            let planned = job.planned(embedding).ok_or_else(|| missing(embedding))?;
            vec![job.store_well(planned, &[fit], None)?]
        }
    };
    journal.put_new(EMBEDDING_RECORD, &stored::to_bytes(&stored))?;
    let mut quantized = Replaced::new(source);
    for tensor in &stored {
        quantized.replace(tensor.id, tensor.tensor(job.encoder.block, tables)?)?;
        job.write_stored_embedding(tensor)?;
    }
    drop((stored, head));
    let options = StreamOptions { by_stage: effort == SearchEffort::Max, cross: true };
    let mut sequential = Sequential::new(job, journal, tables.clone(), &importance);
    let step = run_streams(source, &quantized, cpu, tokens, options, &mut sequential, progress, cancel)?;
    let head = Fits::of_step(job.encoder.isa, &step).of(TensorId::of_model(TensorKind::Head), None)?;
    drop(step);
    job.write_rest(&head, &KeptTensors::none(cancel))
}

/// Encodes and writes all tensors of a job, fitted to the inputs that the unchanged model makes: without a text, by
/// statistics alone.
pub(crate) fn write_fitted_by_statistics(
    job: &mut Job<'_>,
    stats: &mut StatsFiles,
    tools: &Tools<'_>,
) -> Result<()> {
    let (source, isa) = (job.source, job.encoder.isa);
    let embedding = TensorId::of_model(TensorKind::TokenEmbedding);
    let planned = job.planned(embedding).ok_or_else(|| missing(embedding))?.clone();
    // The file begins with the embedding, and the statistics end with what it is fitted to.
    let head = stats.head(source, tools)?;
    let tied = source.config().tied_head;
    let fit = if tied { Fits::of_stats(isa, &head).of(embedding, None)? } else { Fit::default() };
    let stored = job.store_well(&planned, &[fit], None)?;
    job.write_stored_embedding(&stored)?;
    stats.for_each_layer(source, tools, |stats| {
        let Some(layer) = stats.layer else { return Ok(()) };
        let (plan, mut fits) = (job.plan.clone(), Fits::of_stats(isa, &stats));
        let of_layer = plan.tensors().iter().filter(|t| t.info.id.layer == Some(layer));
        let stored = of_layer.map(|planned| job.store_well(planned, &fits.all(job, planned.info.id)?, None));
        let stored = stored.collect::<Result<Vec<_>>>()?;
        job.write_stored_layer(stored, None)?;
        source.release(Some(layer));
        Ok(())
    })?;
    let fit = Fits::of_stats(isa, &head).of(TensorId::of_model(TensorKind::Head), None)?;
    job.write_rest(&fit, &KeptTensors::none(tools.cancel))
}

fn missing(id: TensorId) -> ConvertError {
    ConvertError::BrokenJournal { what: id.to_string() }
}
