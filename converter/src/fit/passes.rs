//! All tensors of a file, in its order, fitted to what they read: along a text, or to statistics of one.

use std::collections::HashMap;

use qsf_calibration::run_streams;
use qsf_format::{TensorId, TensorKind};
use qsf_runtime::source::Replaced;

use super::along_model::AlongModel;
use super::embedding::EmbeddingFits;
use super::fits::Fits;
use super::output_gradients::OutputGradients;
use super::statistics::StatsFiles;
use crate::encode::{Fit, NoCache, RowFits, TensorEncoder};
use crate::error::{ConvertError, Result};
use crate::options::SearchEffort;
use crate::plan::{Plan, PlannedTensor};
use crate::resume::{Journal, Records, from_bytes, to_bytes};
use crate::session::Session;
use crate::write::FileWriter;

/// The journal's record of the token embedding.
pub(crate) const EMBEDDING_RECORD: &str = "embedding";

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
    /// is not encoded again. `importance` is that of each layer, where it was measured.
    ///
    /// # Errors
    /// When a tensor cannot be encoded, a file not be written, or the user interrupts.
    pub fn along_text(self, importance: &[f32], journal: &mut Journal, effort: SearchEffort) -> Result<()> {
        let FittedFile { encoder, plan, file, session, .. } = self;
        let Session { cpu, tokens, progress, cancel } = session;
        let source = encoder.source;
        let outputs = match effort {
            SearchEffort::Low if !has_experts_in_parts(plan) => None,
            _ => OutputGradients::measure(source, journal, effort, &session)?,
        };
        let stored = match journal.get(EMBEDDING_RECORD)?.as_deref().map(from_bytes) {
            Some(Some(known)) => known,
            _ => {
                let planned = embedding_of(plan)?;
                if planned.quant.is_float() && planned.finer.is_none() {
                    // Floats are fitted to nothing.
                    vec![encoder.encode_near(planned, RowFits::Shares(&[Fit::default()]))?]
                } else {
                    let gradients = match &outputs {
                        Some(outputs) => outputs.of_embedding(journal)?,
                        None => None,
                    };
                    let outliers = !planned.outliers.is_none();
                    let gradients = gradients.as_deref();
                    let fits = EmbeddingFits::measure(source, effort, gradients, outliers, &session)?;
                    vec![encoder.encode_near(planned, fits.rows())?]
                }
            }
        };
        journal.put_new(EMBEDDING_RECORD, &to_bytes(&stored))?;
        let mut quantized = Replaced::new(source);
        for tensor in &stored {
            quantized.replace(tensor.id, encoder.as_read(tensor)?)?;
            file.embedding(tensor)?;
        }
        drop(stored);
        let mut layers =
            AlongModel { encoder, plan, file, journal, importance, outputs, done: HashMap::new() };
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
        let head = stats.head()?;
        let planned = embedding_of(plan)?;
        let fit = match source.config().tied_head {
            true => Fits::of_stats(isa, head.clone()).of(planned.info.id, None)?,
            false => Fit::default(),
        };
        file.embedding(&encoder.encode_near(planned, RowFits::Shares(&[fit]))?)?;
        stats.for_each_layer(source, &session, |stats| {
            let Some(layer) = stats.layer else { return Ok(()) };
            let mut fits = Fits::of_stats(isa, stats);
            let mut of_layer = plan.tensors().iter().filter(|t| t.info.id.layer == Some(layer));
            let mut stored = Vec::new();
            while let Some(planned) = of_layer.next() {
                let all = fits.all(source.config(), planned.info.id)?;
                stored.push(encoder.encode_near(planned, all.as_slice().into())?);
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

fn embedding_of(plan: &Plan) -> Result<&PlannedTensor> {
    let id = TensorId::of_model(TensorKind::TokenEmbedding);
    plan.tensor(id).ok_or_else(|| ConvertError::BrokenJournal { what: id.to_string() })
}

/// Whether experts of a stack are in several types: which ones, gradients say.
fn has_experts_in_parts(plan: &Plan) -> bool {
    plan.tensors().iter().any(|planned| planned.info.id.layer.is_some() && !planned.finer.is_none())
}
