//! All tensors of a file, in its order, fitted to what they read: along a text, or to statistics of one.

use std::collections::HashMap;

use qsf_calibration::run_streams;
use qsf_format::{TensorId, TensorKind};
use qsf_runtime::source::Replaced;

use super::along_model::{AlongModel, kept, kept_layer};
use super::embedding::EmbeddingFits;
use super::fits::Fits;
use super::output_gradients::OutputGradients;
use super::statistics::StatsFiles;
use crate::encode::{Fit, NoCache, RowFits, StoredTensor, TensorEncoder};
use crate::error::{ConvertError, Result};
use crate::options::SearchEffort;
use crate::plan::{Plan, PlannedTensor};
use crate::resume::{Journal, Records, from_bytes, to_bytes};
use crate::session::Session;
use crate::tune::{Multiplied, Tuning, tuned_tokens};
use crate::write::FileWriter;

/// The journal's record of the token embedding.
pub(crate) const EMBEDDING_RECORD: &str = "embedding";

/// The journal's record of what stands behind the layers, where the model is tuned.
const BEHIND_RECORD: &str = "behind the layers";

/// A file whose tensors are fitted to what they read, about to be written.
pub(crate) struct FittedFile<'a, 'e> {
    pub encoder: &'a TensorEncoder<'e>,
    pub plan: &'a Plan,
    pub file: &'a mut FileWriter,
    pub stats: &'a mut StatsFiles,
    pub session: Session<'a>,
}

impl FittedFile<'_, '_> {
    /// Writes all tensors, each fitted to the inputs that the quantized ones before it make of the text, and then, with the greatest
    /// effort, tuned. What `journal` has is not encoded again. `importance` is that of each layer, where it was measured.
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
        replace_all(&mut quantized, encoder, &stored)?;
        drop(stored);
        let mut layers = AlongModel { encoder, plan, journal, outputs, done: HashMap::new() };
        let step = run_streams(source, &quantized, cpu, tokens, &mut layers, progress, cancel)?;
        let isa = encoder.rows.isa;
        let head = TensorId::of_model(TensorKind::Head);
        let outliers = plan.tensor(head).is_some_and(|head| !head.outliers.is_none());
        let head = Fits::of_step(isa, step, outliers).of(head, None)?;
        // Those behind the layers are encoded as they are written, unless they are tuned before.
        let (mut behind, mut factors) = (Vec::new(), None);
        if tuned_tokens(source, effort, tokens.len()) > 0 {
            behind = behind_layers(encoder, plan, &head, journal)?;
            for layer in 0..source.config().layers {
                replace_all(&mut quantized, encoder, &kept_layer(journal, layer)?)?;
            }
            replace_all(&mut quantized, encoder, &behind)?;
            factors = Tuning { source, stored: &quantized, session }.run(journal)?;
        }
        drop(quantized);
        let multiplied = Multiplied { encoder, factors: factors.as_ref() };
        for tensor in kept(journal, EMBEDDING_RECORD)? {
            file.embedding(&multiplied.tensor(tensor)?)?;
        }
        for layer in 0..source.config().layers {
            cancel.check()?;
            let tensors = kept_layer(journal, layer)?.into_iter().map(|tensor| multiplied.tensor(tensor));
            let importance = importance.get(layer as usize).copied();
            file.layer(tensors.collect::<Result<Vec<StoredTensor>>>()?, importance)?;
        }
        let behind = behind.into_iter().map(|tensor| Ok((tensor.id, multiplied.tensor(tensor)?)));
        file.rest(encoder, plan, &head, &NoCache, &behind.collect::<Result<_>>()?)
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
        file.rest(encoder, plan, &fit, &NoCache, &HashMap::new())
    }
}

fn embedding_of(plan: &Plan) -> Result<&PlannedTensor> {
    let id = TensorId::of_model(TensorKind::TokenEmbedding);
    plan.tensor(id).ok_or_else(|| ConvertError::BrokenJournal { what: id.to_string() })
}

/// Puts tensors in their places, as a reader of the file will have them.
fn replace_all(
    quantized: &mut Replaced<'_>,
    encoder: &TensorEncoder<'_>,
    stored: &[StoredTensor],
) -> Result<()> {
    for tensor in stored {
        quantized.replace(tensor.id, encoder.as_read(tensor)?)?;
    }
    Ok(())
}

/// The tensors behind the layers that can be tuned, encoded: those that `journal` has are not encoded again.
fn behind_layers(
    encoder: &TensorEncoder<'_>,
    plan: &Plan,
    head: &Fit,
    journal: &mut Journal,
) -> Result<Vec<StoredTensor>> {
    if journal.has(BEHIND_RECORD) {
        return kept(journal, BEHIND_RECORD);
    }
    let mut stored = Vec::new();
    for planned in plan.tensors().iter().filter(|planned| planned.info.id.layer.is_none()) {
        let fit = match planned.info.id.kind {
            TensorKind::TokenEmbedding | TensorKind::Positions => continue,
            TensorKind::Head => head.clone(),
            _ => Fit::default(),
        };
        stored.push(encoder.encode_near(planned, RowFits::Shares(&[fit]))?);
    }
    journal.put_new(BEHIND_RECORD, &to_bytes(&stored))?;
    Ok(stored)
}

/// Whether experts of a stack are in several types: which ones, gradients say.
fn has_experts_in_parts(plan: &Plan) -> bool {
    plan.tensors().iter().any(|planned| planned.info.id.layer.is_some() && !planned.finer.is_none())
}
