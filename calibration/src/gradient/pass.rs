//! The whole way: forwards with what enters each layer kept, and back, each layer computed again before its gradients.

use qsf_format::PositionConfig;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::WeightSource;
use qsf_runtime::{Result, Rotation, RuntimeError, alibi_slopes};

use super::ends::Ends;
use super::error::GradientResult;
use super::layer::Layer;
use super::loss::{Wanted, loss};
use super::parameters::Parameters;
use super::sink::{GradientVisitor, Sink};
use super::support::check_gradients;

/// Logits of a step of the head: of a large vocabulary fewer rows.
const MAX_LOGITS: usize = 1 << 22;

/// How many times as long as a layer forwards it takes backwards, forwards again among it.
pub const BACKWARD_WORK: u64 = 3;

/// A model, and a text in sequences that know nothing of each other.
pub struct GradientText<'a> {
    /// The model.
    pub source: &'a dyn WeightSource,
    /// Kernels and threads.
    pub cpu: &'a Cpu,
    /// Token ids of each sequence; a loss is that of the token behind each position but the last.
    pub sequences: &'a [&'a [u32]],
    /// The first position of each sequence whose prediction counts.
    pub from: usize,
    /// Hears of every token of a layer: once on the way forwards, and [`BACKWARD_WORK`] times on the way back.
    pub progress: &'a dyn Progress,
    /// Stops between layers.
    pub cancel: &'a Cancel,
}

/// What predictions are compared with.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// The text itself: the loss is the mean negative log-likelihood.
    Text,
    /// What another model predicts: the loss is the mean KL divergence from it.
    Predictions(&'a Predictions<'a>),
    /// Tokens that the model itself draws, by numbers that this one begins: the loss is their mean negative log-likelihood. Second
    /// moments of its gradients are those of the Fisher information, which says what small changes do to the predictions.
    Drawn(u64),
}

/// What a model predicts for all sequences, as what its head reads of them.
pub struct Predictions<'a> {
    ends: Ends<'a>,
    pub(super) rows: Vec<Vec<f32>>,
}

impl<'a> Predictions<'a> {
    /// Runs the model of `text`.
    ///
    /// # Errors
    /// As [`GradientText::loss`].
    pub fn of(text: &GradientText<'a>) -> GradientResult<Predictions<'a>> {
        check_gradients(text.source)?;
        let ends = Ends::load(text.source)?;
        let last = text.run(&ends, |_| ())?;
        let rows = last.iter().map(|hidden| ends.head_input(text.cpu, hidden)).collect();
        Ok(Predictions { ends, rows })
    }

    /// Logits at position `at` of a sequence and those behind it, as many as fit into `positions`.
    ///
    /// # Errors
    /// When memory runs out.
    ///
    /// # Panics
    /// When there are no such positions.
    pub fn logits(&self, cpu: &Cpu, sequence: usize, positions: std::ops::Range<usize>) -> Result<Vec<f32>> {
        let width = self.ends.hidden();
        self.ends.logits(cpu, &self.rows[sequence][positions.start * width..positions.end * width])
    }
}

impl GradientText<'_> {
    /// The loss alone.
    ///
    /// # Errors
    /// When a part of the model has no gradient, a tensor is damaged, the text is too short or not of the vocabulary, memory runs out,
    /// or the user interrupts.
    pub fn loss(&self, target: Target<'_>) -> GradientResult<f64> {
        check_gradients(self.source)?;
        let count = self.scored()?;
        let ends = Ends::load(self.source)?;
        let last = self.run(&ends, |_| ())?;
        let mut sum = 0.0;
        for (sequence, hidden) in last.iter().enumerate() {
            let rows = ends.head_input(self.cpu, hidden);
            for positions in self.steps(sequence) {
                let of = positions.start * ends.hidden()..positions.end * ends.hidden();
                let logits = ends.logits(self.cpu, &rows[of])?;
                sum += self.loss_at(target, sequence, positions, &logits, &mut [], count)?;
            }
        }
        Ok(sum / count as f64)
    }

    /// The loss, and gradients of it for `visitor`.
    ///
    /// # Errors
    /// As [`GradientText::loss`], and those of the visitor.
    pub fn gradients(&self, target: Target<'_>, visitor: &mut dyn GradientVisitor) -> GradientResult<f64> {
        check_gradients(self.source)?;
        let count = self.scored()?;
        let mut ends = Ends::load(self.source)?;
        let mut inputs = Vec::new();
        let last = self.run(&ends, |entering| inputs.push(entering.to_vec()))?;
        let (rotation, slopes) = (self.rotation()?, self.slopes());
        let mut at = Vec::new();
        let mut sums = 0.0;
        let mut of_ends = Sink::new(self.cpu, visitor, None);
        for (sequence, hidden) in last.iter().enumerate() {
            let rows = ends.head_input(self.cpu, hidden);
            // Before a visitor hears of gradients that say nothing.
            if rows.iter().any(|value| !value.is_finite()) {
                return Err(RuntimeError::NotANumber {
                    what: "an input of the head that is not finite".into(),
                }
                .into());
            }
            let mut at_rows = vec![0.0; rows.len()];
            for positions in self.steps(sequence) {
                let of = positions.start * ends.hidden()..positions.end * ends.hidden();
                let logits = ends.logits(self.cpu, &rows[of.clone()])?;
                let mut given = logits.clone();
                sums += self.loss_at(target, sequence, positions, &logits, &mut given, count)?;
                let (rows, at_rows) = (&rows[of.clone()], &mut at_rows[of]);
                ends.logits_backward(&mut of_ends, rows, &logits, &mut given, at_rows)?;
            }
            at.push(ends.head_input_backward(&mut of_ends, hidden, &at_rows)?);
        }
        let kept = of_ends.pause();
        for index in (0..self.source.config().layers).rev() {
            let entering = inputs.pop().unwrap_or_default();
            let mut sink = Sink::new(self.cpu, visitor, Some(index));
            let mut layer = self.layer(index, &rotation, &slopes)?;
            for (x, at) in entering.iter().zip(&mut at) {
                self.cancel.check()?;
                let (_, tape) = layer.forward(self.cpu, x)?;
                *at = layer.backward(&mut sink, x, &tape, std::mem::take(at))?;
                self.progress.advance(BACKWARD_WORK * (x.len() / ends.hidden()) as u64);
            }
            sink.finish()?;
            self.source.release(Some(index));
        }
        let mut of_ends = Sink::resume(self.cpu, visitor, None, kept);
        for (tokens, at) in self.sequences.iter().zip(at) {
            ends.embed_backward(&mut of_ends, tokens, at)?;
        }
        of_ends.finish()?;
        Ok(sums / count as f64)
    }

    /// Takes all sequences through the layers; `see` gets what enters each of them.
    fn run(&self, ends: &Ends<'_>, mut see: impl FnMut(&[Vec<f32>])) -> Result<Vec<Vec<f32>>> {
        let embed = |tokens: &&[u32]| ends.embed(self.cpu, tokens);
        let mut hidden = self.sequences.iter().map(embed).collect::<Result<Vec<_>>>()?;
        let (rotation, slopes) = (self.rotation()?, self.slopes());
        for index in 0..self.source.config().layers {
            see(&hidden);
            let layer = self.layer(index, &rotation, &slopes)?;
            for hidden in &mut hidden {
                self.cancel.check()?;
                *hidden = layer.forward(self.cpu, hidden)?.0;
                self.progress.advance((hidden.len() / ends.hidden()) as u64);
            }
            self.source.release(Some(index));
        }
        Ok(hidden)
    }

    fn layer<'b>(&'b self, index: u32, rotation: &'b Rotation, slopes: &'b [f32]) -> Result<Layer<'b>> {
        let parameters = Parameters { source: self.source, layer: Some(index) };
        Layer::load(parameters, index, rotation.of_layer(self.source.config(), index), slopes)
    }

    fn rotation(&self) -> Result<Rotation> {
        let longest = self.sequences.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
        let mut rotation = Rotation::new(self.source.config(), longest);
        rotation.reserve(longest)?;
        Ok(rotation)
    }

    fn slopes(&self) -> Vec<f32> {
        let config = self.source.config();
        match config.position {
            PositionConfig::Alibi { slope_scale } => {
                alibi_slopes(config.heads as usize, slope_scale.unwrap_or(1.0))
            }
            PositionConfig::Learned {} | PositionConfig::Rope { .. } => Vec::new(),
        }
    }

    /// How many predictions count.
    fn scored(&self) -> Result<usize> {
        let limit = self.source.config().max_positions as usize;
        let of = |tokens: &&[u32]| tokens.len().saturating_sub(self.from + 1);
        let count = self.sequences.iter().map(of).sum();
        if let Some(long) = self.sequences.iter().find(|tokens| tokens.len() > limit) {
            let message = format!("a sequence of {} tokens, and the model was made for {limit}", long.len());
            return Err(RuntimeError::Request(message));
        }
        match count {
            0 => Err(RuntimeError::Request(
                "no prediction to take a gradient of: the text is too short".into(),
            )),
            count => Ok(count),
        }
    }

    /// Positions of a sequence whose predictions count, in steps of the head.
    fn steps(&self, sequence: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        let end = self.sequences[sequence].len().saturating_sub(1);
        let rows = (MAX_LOGITS / self.source.config().vocab as usize).clamp(16, 512);
        (self.from..end).step_by(rows).map(move |first| first..end.min(first + rows))
    }

    fn loss_at(
        &self,
        target: Target<'_>,
        sequence: usize,
        positions: std::ops::Range<usize>,
        logits: &[f32],
        gradients: &mut [f32],
        count: usize,
    ) -> Result<f64> {
        self.cancel.check()?;
        let of = (logits, self.source.config().vocab as usize);
        Ok(match target {
            Target::Text => {
                let next = &self.sequences[sequence][positions.start + 1..positions.end + 1];
                loss(self.cpu, of, Wanted::Tokens(next), gradients, count)
            }
            Target::Drawn(seed) => {
                let numbers: Vec<f64> = positions.map(|at| number(seed, sequence, at)).collect();
                loss(self.cpu, of, Wanted::Drawn(&numbers), gradients, count)
            }
            Target::Predictions(predictions) => {
                let wanted = predictions.logits(self.cpu, sequence, positions)?;
                loss(self.cpu, of, Wanted::Logits(&wanted), gradients, count)
            }
        })
    }
}

/// A number in 0..1 for a position of a sequence (the finalizer of SplitMix64, by Vigna).
fn number(seed: u64, sequence: usize, position: usize) -> f64 {
    let mixed = |x: u64| {
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    };
    let key = mixed(mixed(seed).wrapping_add(sequence as u64 + 1)).wrapping_add(position as u64 + 1);
    (mixed(key.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 11) as f64 / (1_u64 << 53) as f64
}
