//! What a model is evaluated beside: nothing, a base that runs, one whose log-probabilities were saved, or a file that takes its
//! own.

use std::ops::Range;

use qsf_cpu::Isa;
use rayon::prelude::*;

use super::options::EvalOptions;
use super::row::{RowDifference, compare, nll};
use super::saved_base::{BaseWriter, SavedBase};
use super::side::Side;
use crate::error::{Result, RuntimeError};
use crate::runner::{Runner, Sequence};

/// What a model is evaluated beside.
pub enum Reference<'a, R> {
    /// Perplexity alone.
    Nothing,
    /// A base that runs side by side.
    Model(&'a R),
    /// The log-probabilities of a base, which [`SavedBase::check`] was asked of.
    Saved(&'a mut SavedBase),
    /// Perplexity alone; the model's log-probabilities are kept, as those of a base.
    Save(&'a mut BaseWriter),
}

/// The same at work.
pub(super) enum Beside<'a, R: Runner> {
    Nothing,
    Model(Box<Side<'a, R>>),
    Saved(&'a mut SavedBase),
    Save(&'a mut BaseWriter),
}

/// What came of some positions.
pub(super) enum Looked {
    /// Negative log-likelihoods of the true next tokens.
    Alone(Vec<f64>),
    Compared(Vec<RowDifference>),
}

impl<'a, R: Runner> Beside<'a, R> {
    /// Gets ready, for a model of `vocab` tokens.
    pub fn new(reference: Reference<'a, R>, vocab: u32, options: &EvalOptions) -> Result<Beside<'a, R>> {
        let known = match &reference {
            Reference::Model(base) => base.config().vocab,
            Reference::Saved(base) => base.facts().vocab,
            Reference::Nothing | Reference::Save(_) => vocab,
        };
        if known != vocab {
            return Err(RuntimeError::Request(format!(
                "the models have vocabularies of {vocab} and {known}: their distributions cannot be compared"
            )));
        }
        Ok(match reference {
            Reference::Nothing => Beside::Nothing,
            Reference::Model(base) => {
                let kv = options.base_kv.into();
                let side = Side::new(base, options.ctx, options.steps(), kv, options.logit_rows)?;
                Beside::Model(Box::new(side))
            }
            Reference::Saved(base) => Beside::Saved(base),
            Reference::Save(writer) => Beside::Save(writer),
        })
    }

    /// Whether there is a base to compare with.
    pub fn compares(&self) -> bool {
        matches!(self, Beside::Model(_) | Beside::Saved(_))
    }

    /// Tokens of a step at most.
    pub fn batch(&self) -> usize {
        if let Beside::Model(side) = self { side.state.batch() } else { usize::MAX }
    }

    /// Begins chunk `number`, of these tokens of the text.
    pub fn begin_chunk(&mut self, number: usize, text: &[u32]) -> Result<()> {
        match self {
            Beside::Nothing => Ok(()),
            Beside::Model(side) => side.state.rewind(0),
            Beside::Saved(base) => base.begin_chunk(number),
            Beside::Save(writer) => writer.begin_chunk(text),
        }
    }

    /// Takes a step.
    pub fn forward(&mut self, step: &[u32]) -> Result<()> {
        match self {
            Beside::Model(side) => side.runner.forward(&mut side.state, step),
            _ => Ok(()),
        }
    }

    /// Looks at the `logits` that the model has at these rows of the step.
    pub fn look(&mut self, isa: Isa, logits: &[f32], rows: Range<usize>, targets: &[u32]) -> Result<Looked> {
        let vocab = logits.len() / targets.len();
        let losses = || -> Vec<f64> {
            let rows = logits.par_chunks(vocab).zip(targets);
            rows.map(|(row, &target)| nll(isa, row, target as usize)).collect()
        };
        let compared = |base: &[f32]| -> Vec<RowDifference> {
            let rows = logits.par_chunks(vocab).zip(base.par_chunks(vocab)).zip(targets);
            rows.map(|((row, base), &target)| compare(isa, base, row, target as usize)).collect()
        };
        Ok(match self {
            Beside::Nothing => Looked::Alone(losses()),
            Beside::Model(side) => Looked::Compared(compared(side.logits(rows)?)),
            Beside::Saved(base) => {
                let (base_logits, base_losses) = base.rows(targets.len())?;
                let differences = compared(base_logits).into_iter().zip(base_losses);
                Looked::Compared(differences.map(|(row, loss)| row.with_base_nll(*loss)).collect())
            }
            Beside::Save(writer) => {
                let losses = losses();
                writer.put_rows(logits, &losses)?;
                Looked::Alone(losses)
            }
        })
    }
}
