//! How much work a survey is, so that its progress and the time that is left are those of all of it.
//!
//! The unit is a weight that one token multiplies. What encoding costs in that unit was measured once, roughly: it decides how
//! evenly the bar moves, and nothing else.

use qsf_runtime::progress::Progress;
use qsf_runtime::source::WeightSource;

use super::probed::probed_rows;
use super::survey_size::SurveySize;
use crate::fit::weights_of_layers;
use crate::plan::PlannedTensor;

/// Encoding a weight of a sample in one type, on the average of all types: trellis codes take most of it.
const SAMPLED_WEIGHT: u64 = 100_000;
/// Encoding a weight in the type that the whole model is probed with.
const PROBED_WEIGHT: u64 = 20_000;

/// The parts of a survey, and who hears of them.
pub(super) struct SurveyWork<'a> {
    progress: &'a dyn Progress,
    size: SurveySize,
    /// Tokens whose moments are taken.
    heard: u64,
    /// Tokens that one run of the probe takes.
    probed: u64,
    /// Weights of each layer.
    layers: Vec<u64>,
    /// Weights of the head.
    head: u64,
}

impl<'a> SurveyWork<'a> {
    /// That of `source`, with the moments of `heard` tokens and a probe that runs `probed`.
    pub fn new(
        source: &dyn WeightSource,
        size: SurveySize,
        heard: usize,
        probed: usize,
        progress: &'a dyn Progress,
    ) -> SurveyWork<'a> {
        let (config, layers) = (source.config(), weights_of_layers(source));
        let head = u64::from(config.vocab) * u64::from(config.hidden);
        SurveyWork { progress, size, heard: heard as u64, probed: probed as u64, layers, head }
    }

    /// So many units are done.
    pub fn done(&self, units: u64) {
        self.progress.advance(units);
    }

    /// The moments of a layer; those of the head, with `None`, cost nearly nothing.
    pub fn moments(&self, layer: Option<u32>) -> u64 {
        layer.map_or(0, |layer| self.heard * self.layers[layer as usize])
    }

    /// One run of the model from `layer` on.
    pub fn run_from(&self, layer: u32) -> u64 {
        self.probed * (self.layers[layer as usize..].iter().sum::<u64>() + self.head)
    }

    /// A matrix of `layer` in so many `types`, and the model with it, where it is `probed`.
    pub fn matrix(&self, layer: u32, planned: &PlannedTensor, types: usize, probed: bool) -> u64 {
        let (rows, cols) = (planned.info.rows as u64, planned.info.cols as u64);
        let sample = rows.min(self.size.sample_rows as u64) * cols * types as u64 * SAMPLED_WEIGHT;
        let changed =
            rows.min(probed_rows(planned.info.rows, planned.info.cols) as u64) * cols * PROBED_WEIGHT;
        sample + if probed { changed + self.run_from(layer) } else { 0 }
    }

    /// A matrix outside of layers in so many `types`, with rows in so many `classes`, and the model with each of these.
    pub fn end(&self, planned: &PlannedTensor, classes: u64, types: u64) -> u64 {
        let (rows, cols) = (planned.info.rows as u64, planned.info.cols as u64);
        let sample = rows.min(classes * self.size.sample_rows as u64) * cols * types * SAMPLED_WEIGHT;
        let changed = rows.min(classes * probed_rows(planned.info.rows, planned.info.cols) as u64)
            * cols
            * PROBED_WEIGHT;
        sample + changed + classes * self.run_from(0)
    }

    /// Hears of tokens whose moments were taken in a layer.
    pub fn of_tokens(&self) -> Tokens<'a> {
        let units = self.layers.iter().sum::<u64>() / self.layers.len().max(1) as u64;
        Tokens { progress: self.progress, units }
    }
}

/// Progress of a part that counts tokens, within work that counts in other units.
pub(super) struct Tokens<'a> {
    /// Of the whole work.
    progress: &'a dyn Progress,
    /// Units of it that a token is.
    units: u64,
}

impl Progress for Tokens<'_> {
    fn begin(&self, _: &str, _: u64) {}

    fn advance(&self, tokens: u64) {
        self.progress.advance(tokens * self.units);
    }

    fn end(&self) {}

    fn note(&self, text: &str) {
        self.progress.note(text);
    }

    fn warn(&self, text: &str) {
        self.progress.warn(text);
    }

    fn detail(&self, text: &str) {
        self.progress.detail(text);
    }
}
