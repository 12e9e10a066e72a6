//! All tensors of a file, in its order, fitted to what they read: along a text, or to statistics of one.

use std::collections::HashMap;

use qsf_calibration::{LayerStats, run_streams};
use qsf_format::{TensorId, TensorKind};
use qsf_runtime::source::Replaced;

use super::along_model::AlongModel;
use super::fits::Fits;
use super::output_gradients::OutputGradients;
use super::statistics::StatsFiles;
use crate::encode::{Fit, NoCache, StoredTensor, TensorEncoder};
use crate::error::{ConvertError, Result};
use crate::options::SearchEffort;
use crate::plan::Plan;
use crate::resume::{Journal, Records, from_bytes, to_bytes};
use crate::session::Session;
use crate::write::FileWriter;

/// The journal's record of the token embedding.
pub(crate) const EMBEDDING_RECORD: &str = "embedding";

/// What was measured of the unchanged model.
#[derive(Default)]
pub(crate) struct Measured {
    /// What the head reads.
    pub head: LayerStats,
    /// Divergence of the model's predictions without each layer; empty where nobody wants it.
    pub importance: Vec<f32>,
}

/// A file whose tensors are fitted to what they read, about to be written.
pub(crate) struct FittedFile<'a, 'e> {
    pub encoder: &'a TensorEncoder<'e>,
    pub plan: &'a Plan,
    pub file: &'a mut FileWriter,
    pub stats: &'a mut StatsFiles,
    pub session: Session<'a>,
}

impl FittedFile<'_, '_> {
    /// Writes all tensors, each fitted to the inputs that the quantized ones before it make of the text. What `journal` has
    /// is not encoded again.
    ///
    /// # Errors
    /// When a tensor cannot be encoded, a file not be written, or the user interrupts.
    pub fn along_text(self, measured: Measured, journal: &mut Journal, effort: SearchEffort) -> Result<()> {
        let FittedFile { encoder, plan, file, session, .. } = self;
        let Session { cpu, tokens, progress, cancel } = session;
        let source = encoder.source;
        let Measured { head, importance } = measured;
        let outputs = OutputGradients::measure(source, journal, effort, &session)?;
        let stored = match journal.get(EMBEDDING_RECORD)?.as_deref().map(from_bytes) {
            Some(Some(known)) => known,
            _ => vec![embedding(encoder, plan, &head)?],
        };
        journal.put_new(EMBEDDING_RECORD, &to_bytes(&stored))?;
        let mut quantized = Replaced::new(source);
        for tensor in &stored {
            quantized.replace(tensor.id, encoder.as_read(tensor)?)?;
            file.embedding(tensor)?;
        }
        drop((stored, head));
        let mut layers = AlongModel {
            encoder,
            plan,
            file,
            journal,
            importance: &importance,
            outputs,
            done: HashMap::new(),
        };
        let step = run_streams(source, &quantized, cpu, tokens, &mut layers, progress, cancel)?;
        let isa = encoder.rows.isa;
        let head = TensorId::of_model(TensorKind::Head);
        let outliers = plan.tensor(head).is_some_and(|head| !head.outliers.is_none());
        let head = Fits::of_step(isa, step, outliers).of(head, None)?;
        file.rest(encoder, plan, &head, &NoCache)
    }

    /// Writes all tensors, each fitted to the inputs that the unchanged model makes: without a text, by statistics alone.
    ///
    /// # Errors
    /// When a tensor cannot be encoded, a file not be read or written, or the user interrupts.
    pub fn by_statistics(self) -> Result<()> {
        let FittedFile { encoder, plan, file, stats, session } = self;
        let (source, isa) = (encoder.source, encoder.rows.isa);
        // The file begins with the embedding, and the statistics end with what it is fitted to.
        let head = stats.head(source, &session)?;
        file.embedding(&embedding(encoder, plan, &head)?)?;
        stats.for_each_layer(source, &session, |stats| {
            let Some(layer) = stats.layer else { return Ok(()) };
            let mut fits = Fits::of_stats(isa, stats);
            let mut of_layer = plan.tensors().iter().filter(|t| t.info.id.layer == Some(layer));
            let mut stored = Vec::new();
            while let Some(planned) = of_layer.next() {
                stored.push(encoder.encode_near(planned, &fits.all(source.config(), planned.info.id)?)?);
                fits.keep_for(of_layer.clone().map(|planned| planned.info.id));
            }
            file.layer(stored, None)?;
            source.release(Some(layer));
            Ok(())
        })?;
        let fit = Fits::of_stats(isa, head).of(TensorId::of_model(TensorKind::Head), None)?;
        file.rest(encoder, plan, &fit, &NoCache)
    }
}

/// What the head reads in the unchanged model, where someone needs it.
///
/// # Errors
/// When a file of statistics or a tensor is damaged, or the user interrupts.
pub(crate) fn head_of(
    encoder: &TensorEncoder<'_>,
    stats: &mut StatsFiles,
    journal: &Journal,
    session: &Session<'_>,
) -> Result<LayerStats> {
    let tied = encoder.source.config().tied_head;
    // The embedding is fitted to it if it is the head, too, and was not fitted in an earlier run.
    if stats.writes() || (tied && !journal.has(EMBEDDING_RECORD)) {
        stats.head(encoder.source, session)
    } else {
        Ok(LayerStats::default())
    }
}

/// The token embedding. One that is the head, too, is fitted to what the head reads.
fn embedding(encoder: &TensorEncoder<'_>, plan: &Plan, head: &LayerStats) -> Result<StoredTensor> {
    let id = TensorId::of_model(TensorKind::TokenEmbedding);
    let missing = || ConvertError::BrokenJournal { what: id.to_string() };
    let planned = plan.tensor(id).ok_or_else(missing)?;
    let tied = encoder.source.config().tied_head;
    let fit =
        if tied { Fits::of_stats(encoder.rows.isa, head.clone()).of(id, None)? } else { Fit::default() };
    encoder.encode_near(planned, &[fit])
}
