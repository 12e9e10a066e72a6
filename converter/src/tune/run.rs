//! Along the calibration text, with a part of it kept aside: what does not gain there is not kept.

use qsf_calibration::gradient::{GradientError, check_gradients};
use qsf_calibration::tuning::{Factors, STEP_WORK, TuningState, TuningText};
use qsf_runtime::source::{TensorInfo, WeightSource};
use qsf_runtime::{LayerRunner, RuntimeError};

use super::state_bytes::{FACTOR_BYTES, from_bytes, to_bytes};
use crate::error::{ConvertError, Result};
use crate::options::SearchEffort;
use crate::resume::Records;
use crate::session::Session;

/// Of so many sequences one is kept aside.
const ASIDE: usize = 16;
/// Fewest sequences that say something, those kept aside among them.
const LEAST_SEQUENCES: usize = 2 * ASIDE;
/// Sequences of a step: few gain most of a text (docs/measurements/simulations.md).
const BATCH: usize = 2;
/// What may enter all layers of their tokens, in bytes.
const KEPT_BYTES: usize = 1 << 30;
/// How far factors go, times the root of the divergence: what errors of them cost grows with their square, and what can be gained
/// with the divergence (docs/measurements/simulations.md).
const RATE: f64 = 0.0025;
/// How often the journal keeps how far it is.
const KEPT: u32 = 8;

/// Tokens of a text of `tokens` that a conversion tunes the model with, those kept aside among them.
pub(crate) fn tuned_tokens(source: &dyn WeightSource, effort: SearchEffort, tokens: usize) -> usize {
    let length = LayerRunner::chunk_of(source.config());
    let whole = tokens / length;
    // A sequence of one token predicts nothing.
    let tunes = effort == SearchEffort::Max
        && whole >= LEAST_SEQUENCES
        && length > 1
        && check_gradients(source).is_ok();
    if tunes { whole * length } else { 0 }
}

/// How many of these tokens are kept aside.
pub(crate) fn aside_tokens(tuned: usize) -> usize {
    tuned / ASIDE
}

/// Tokens whose hidden states are in memory for all layers.
pub(crate) fn kept_tokens(source: &dyn WeightSource) -> usize {
    batch(source) * LayerRunner::chunk_of(source.config())
}

/// Bytes of the journal that tuning takes at most.
pub(crate) fn journal_bytes(source: &dyn WeightSource) -> u64 {
    let of_tensor =
        |info: &TensorInfo| if info.id.kind.is_matrix() { info.rows } else { info.rows * info.cols };
    let factors: u64 = source.tensors().iter().map(|info| of_tensor(info) as u64).sum();
    // There is one more where the steps are no multiple.
    u64::from(KEPT + 1) * FACTOR_BYTES as u64 * factors
}

/// Sequences of a step: fewer of a large model.
fn batch(source: &dyn WeightSource) -> usize {
    let config = source.config();
    let of_sequence = 4 * config.stream_width() * config.layers as usize * LayerRunner::chunk_of(config);
    (KEPT_BYTES / of_sequence.max(1)).clamp(1, BATCH)
}

/// Sequences that the model is tuned on, and those kept aside, from all over the text.
fn sequences<'a>(source: &dyn WeightSource, tokens: &'a [u32]) -> (Vec<&'a [u32]>, Vec<&'a [u32]>) {
    let all = tokens.chunks_exact(LayerRunner::chunk_of(source.config())).enumerate();
    let (aside, tuned): (Vec<_>, Vec<_>) = all.partition(|(i, _)| i % ASIDE == ASIDE / 2);
    let only = |of: Vec<(usize, &'a [u32])>| of.into_iter().map(|(_, sequence)| sequence).collect();
    (only(tuned), only(aside))
}

/// A model that is fitted, about to be tuned.
pub(crate) struct Tuning<'a> {
    pub source: &'a dyn WeightSource,
    /// The model as it is stored.
    pub stored: &'a dyn WeightSource,
    pub session: Session<'a>,
}

impl Tuning<'_> {
    /// What its tensors are to be multiplied by; `None` where that gains nothing. It goes on from what `journal` has.
    ///
    /// # Errors
    /// When a tensor is damaged, the journal cannot be read or written, memory runs out, or the user interrupts.
    pub fn run(&self, journal: &mut dyn Records) -> Result<Option<Factors>> {
        let Tuning { source, stored, session: Session { cpu, tokens, progress, cancel } } = *self;
        let (tuned, aside) = sequences(source, tokens);
        let batch = batch(source);
        let ones = Factors::ones(stored)?;
        if ones.is_empty() {
            return Ok(None);
        }
        let mut text =
            TuningText { source, stored, cpu, sequences: &tuned, batch, rate: 0.0, progress, cancel };
        let steps = text.steps();
        let mut state = TuningState::new(ones);
        if let Some(step) = (1..=steps).rev().find(|step| journal.has(&record_name(*step))) {
            let known = journal.get(&record_name(step))?.as_deref().and_then(from_bytes);
            let known = known.filter(|known| known.steps == step && known.is_of(&state.factors));
            state = known.ok_or_else(|| ConvertError::BrokenJournal { what: record_name(step) })?;
        }
        let left = tuned.len() - tuned.len().min(state.steps as usize * batch);
        let length = LayerRunner::chunk_of(source.config());
        // Source and model, before and afterwards.
        let work = STEP_WORK * left as u64 + 4 * aside.len() as u64;
        progress.begin("tuning", work * length as u64 * u64::from(source.config().layers));
        let before = text.loss(&Factors::default(), &aside).map_err(failed)?;
        text.rate = RATE * before.max(0.0).sqrt();
        while state.steps < steps {
            match text.step(&mut state) {
                // What overflows with some text may be of use with all other.
                Err(GradientError::Runtime(RuntimeError::NotANumber { what })) => {
                    progress.end();
                    progress.warn(&format!("the model is not tuned: {what}"));
                    return Ok(None);
                }
                stepped => stepped.map_err(failed)?,
            }
            if state.steps.is_multiple_of(steps.div_ceil(KEPT)) || state.steps == steps {
                journal.put_new(&record_name(state.steps), &to_bytes(&state))?;
            }
        }
        let after = text.loss(&state.factors, &aside).map_err(failed)?;
        progress.end();
        let gains = after < before;
        let digits = if before < 0.01 { 6 } else { 4 };
        progress.note(&format!(
            "tuned: KL divergence {before:.digits$}, now {after:.digits$} on text that was kept aside{}",
            if gains { "" } else { "; the model stays as it was" }
        ));
        Ok(gains.then_some(state.factors))
    }
}

fn failed(error: GradientError) -> ConvertError {
    match error {
        GradientError::Runtime(error) => error.into(),
        error => RuntimeError::Request(error.to_string()).into(),
    }
}

fn record_name(step: u32) -> String {
    format!("tuning, step {step}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_aside_is_from_all_over_the_text_and_tunes_nothing() {
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden/llama");
        let source = qsf_runtime::source::open(&golden).unwrap();
        let length = LayerRunner::chunk_of(source.config());
        let tokens: Vec<u32> = (0..(40 * length + 3) as u32).collect();
        let (tuned, aside) = sequences(&*source, &tokens);
        assert_eq!((tuned.len(), aside.len()), (38, 2));
        assert!(aside.iter().all(|sequence| !tuned.contains(sequence)));
        assert_eq!(tuned_tokens(&*source, SearchEffort::Max, tokens.len()), 40 * length);
        assert_eq!(tuned_tokens(&*source, SearchEffort::High, tokens.len()), 0);
        assert_eq!(tuned_tokens(&*source, SearchEffort::Max, 31 * length), 0, "too little to say anything");
    }
}
