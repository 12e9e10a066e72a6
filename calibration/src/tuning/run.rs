//! Steps along the text, and what they gain on text that was kept aside.

use std::collections::BTreeMap;

use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;

use super::adam::TuningState;
use super::factors::{FactorGradients, Factors};
use crate::gradient::{BACKWARD_WORK, GradientResult, GradientText, Predictions, Target};

/// How many times as long as a layer forwards a step takes for a token of it: the source forwards, and the model there and back.
pub const STEP_WORK: u64 = 1 + 1 + BACKWARD_WORK;

/// A quantized model, the one that it is of, and a text in sequences that know nothing of each other.
pub struct TuningText<'a> {
    /// What it should predict.
    pub source: &'a dyn WeightSource,
    /// The model as it is stored.
    pub stored: &'a dyn WeightSource,
    /// Kernels and threads.
    pub cpu: &'a Cpu,
    /// Token ids of each sequence that it is tuned on.
    pub sequences: &'a [&'a [u32]],
    /// Sequences of a step.
    pub batch: usize,
    /// How far a factor goes at the first step; each goes less far than the one before.
    pub rate: f64,
    /// Hears of every token of a layer, [`STEP_WORK`] times in a step.
    pub progress: &'a dyn Progress,
    /// Stops between layers.
    pub cancel: &'a Cancel,
}

impl TuningText<'_> {
    /// Steps that the text is long enough for: each sequence comes once.
    pub fn steps(&self) -> u32 {
        self.sequences.len().div_ceil(self.batch.max(1)) as u32
    }

    /// Goes a step on from `state`, unless the text is over.
    ///
    /// # Errors
    /// When a part of the model has no gradient, a tensor is damaged, a sequence is too short or not of the vocabulary, memory runs
    /// out, or the user interrupts.
    pub fn step(&self, state: &mut TuningState) -> GradientResult<()> {
        let (steps, done) = (self.steps(), state.steps);
        if done >= steps {
            return Ok(());
        }
        // Each batch is of sequences from all over the text, for its kinds follow one another.
        let of_batch = self.sequences.iter().skip(done as usize).step_by(steps as usize);
        let batch: Vec<&[u32]> = of_batch.copied().collect();
        let wanted = Predictions::of(&self.text(self.source, &batch))?;
        let model = state.factors.applied(self.stored)?;
        let found = BTreeMap::new();
        let mut at = FactorGradients { cpu: self.cpu, model: &model, factors: &state.factors, found };
        self.text(&model, &batch).gradients(Target::Predictions(&wanted), &mut at)?;
        let found = at.found;
        state.step(&found, self.rate * f64::from(steps - done) / f64::from(steps));
        Ok(())
    }

    /// Mean KL divergence from the source on `sequences`, with everything multiplied by `factors`.
    ///
    /// # Errors
    /// As [`TuningText::step`].
    pub fn loss(&self, factors: &Factors, sequences: &[&[u32]]) -> GradientResult<f64> {
        let wanted = Predictions::of(&self.text(self.source, sequences))?;
        let model = factors.applied(self.stored)?;
        self.text(&model, sequences).loss(Target::Predictions(&wanted))
    }

    fn text<'b>(&'b self, source: &'b dyn WeightSource, sequences: &'b [&'b [u32]]) -> GradientText<'b> {
        let TuningText { cpu, progress, cancel, .. } = *self;
        GradientText { source, cpu, sequences, from: 0, progress, cancel }
    }
}
