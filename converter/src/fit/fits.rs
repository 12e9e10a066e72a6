//! What each matrix is fitted to, from statistics of what it reads: how much each column matters, and the moments.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use qsf_calibration::{CrossMoment, Detail, LayerStats, Moments, Step};
use qsf_format::{ModelConfig, TensorId, TensorKind};
use qsf_runtime::LinearInput;
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::Tensor;

use crate::encode::{ExpertInputs, Fit};
use crate::error::{ConvertError, Result};
use crate::inputs::{OwnInputs, input_of};
use crate::plan::experts_of;
use crate::quantize::{Correction, Feedback};

/// Damping of second moments, as a part of the mean of their diagonal (GPTQ's, arXiv 2210.17323).
pub(super) const DAMPING: f32 = 0.01;
/// How far targets go from the original weights to those that make up for what is quantized before, with a text without end:
/// best at a half (docs/measurements/simulations.md).
const CORRECTION: f64 = 0.5;
/// Tokens for each column at which they go half as far: what chance makes up is made up for on this text only.
const TOKENS_OF_COLUMN: f64 = 8.0;
/// Share of the mean that every column of a tied embedding gets on top of its moment as a head, where no gradients say how much
/// each of its columns matters as an embedding.
pub(super) const EMBEDDING_SHARE: f64 = 0.3;

/// The fits of the matrices of one step; those that read the same inputs share theirs.
pub(crate) struct Fits {
    isa: Isa,
    stats: LayerStats,
    cross: BTreeMap<LinearInput, CrossMoment>,
    residual: BTreeMap<LinearInput, CrossMoment>,
    /// Whether someone asks for the moments themselves.
    keeps_moments: bool,
    made: HashMap<(LinearInput, bool), Fit>,
}

impl Fits {
    /// Fits by `stats` alone.
    pub fn of_stats(isa: Isa, stats: LayerStats) -> Fits {
        let (cross, residual) = (BTreeMap::new(), BTreeMap::new());
        Fits { isa, stats, cross, residual, keeps_moments: true, made: HashMap::new() }
    }

    /// Fits that make up for what came before, too. `keeps_moments`: for matrices with outliers.
    pub fn of_step(isa: Isa, step: Step, keeps_moments: bool) -> Fits {
        let Step { stats, cross, residual, .. } = step;
        Fits { isa, stats, cross, residual, keeps_moments, made: HashMap::new() }
    }

    /// The fit of a matrix; of the expert `expert`, where it is a stack of them. Nothing for tensors that multiply nothing.
    ///
    /// # Errors
    /// When the moments are none.
    pub fn of(&mut self, id: TensorId, expert: Option<u32>) -> Result<Fit> {
        let own = self.own_inputs();
        let Some(input) = input_of(id.kind, expert, own) else { return Ok(Fit::default()) };
        let embedding = id.kind == TensorKind::TokenEmbedding;
        if let Some(fit) = self.made.get(&(input, embedding)) {
            return Ok(fit.clone());
        }
        let Some(moments) = self.moments(input, id.kind, expert) else { return Ok(Fit::default()) };
        let cols = moments.cols();
        if moments.detail() == Detail::Diagonal {
            // How much each column matters, and nothing of what makes up for what.
            let squares = moments.mean_square();
            let mean = squares.iter().sum::<f64>() / cols.max(1) as f64;
            let base = if embedding { EMBEDDING_SHARE * mean } else { 0.0 };
            let importance = squares.iter().map(|square| (square + base) as f32).collect();
            let fit = Fit { importance: Some(Arc::new(importance)), ..Fit::default() };
            self.made.insert((input, embedding), fit.clone());
            return Ok(fit);
        }
        let Some(mut moment) = moments.into_second_moment() else { return Ok(Fit::default()) };
        if embedding {
            let mean = (0..cols).map(|i| f64::from(moment[i * cols + i])).sum::<f64>() / cols as f64;
            (0..cols).for_each(|i| moment[i * cols + i] += (EMBEDDING_SHARE * mean) as f32);
        }
        let importance = Arc::new((0..cols).map(|i| moment[i * cols + i]).collect());
        let refused = |source| ConvertError::Moments { id, source };
        let feedback = Arc::new(Feedback::new(self.isa, &moment, DAMPING).map_err(refused)?);
        let cross = if embedding { None } else { self.cross_of(input) };
        let correction = cross.map(|cross| {
            let part = correction_part(cross.tokens(), cols);
            let residual = self.residual.remove(&input).map(CrossMoment::into_mean);
            Arc::new(Correction::new(&feedback, &moment, &cross.into_mean(), residual, part))
        });
        let moment = self.keeps_moments.then(|| Tensor::from_f32(cols, cols, &moment));
        let fit = Fit {
            importance: Some(importance),
            feedback: Some(feedback),
            correction,
            moment,
            ..Fit::default()
        };
        self.made.insert((input, embedding), fit.clone());
        Ok(fit)
    }

    /// Forgets what none of these matrices reads: what one input takes is a multiple of its width squared.
    pub fn keep_for(&mut self, ids: impl Iterator<Item = TensorId> + Clone) {
        let own = self.own_inputs();
        self.made.retain(|(input, embedding), _| {
            let expert = match *input {
                LinearInput::ExpertFfn(expert) | LinearInput::ExpertDown(expert) => Some(expert),
                _ => None,
            };
            ids.clone().any(|id| {
                let reads = |expert| input_of(id.kind, expert, own) == Some(*input);
                (id.kind == TensorKind::TokenEmbedding) == *embedding && (reads(None) || reads(expert))
            })
        });
    }

    fn own_inputs(&self) -> OwnInputs {
        let has = |input| self.stats.inputs.contains_key(&input) || self.made.contains_key(&(input, false));
        OwnInputs { query_latent: has(LinearInput::QueryLatent), mixer_gate: has(LinearInput::MixerGate) }
    }

    /// The sums of an input: taken out where all that read it share one fit.
    fn moments(&mut self, input: LinearInput, kind: TensorKind, expert: Option<u32>) -> Option<Moments> {
        match read_by_one_fit(input) {
            true => self.stats.inputs.remove(&input),
            false => self.stats.moments(kind, expert).map(Cow::into_owned),
        }
    }

    fn cross_of(&mut self, input: LinearInput) -> Option<CrossMoment> {
        match read_by_one_fit(input) {
            true => self.cross.remove(&input),
            false => self.cross.get(&input).cloned(),
        }
    }
}

impl Fits {
    /// The fit of a tensor of a model of this `config`, or, of a stack of experts, that of each.
    ///
    /// # Errors
    /// When the moments are none.
    pub fn all(&mut self, config: &ModelConfig, id: TensorId) -> Result<Vec<Fit>> {
        match experts_of(config, id) {
            None => Ok(vec![self.of(id, None)?]),
            Some(count) => {
                let of_expert = |expert| {
                    let share = self.stats.expert_tokens(id.kind, expert) as f64;
                    Ok(Fit { share, ..self.of(id, Some(expert))? })
                };
                (0..count).map(of_expert).collect()
            }
        }
    }

    /// What each of `count` experts of a stack has done with the text, as far as its inputs tell.
    pub fn expert_inputs(&self, kind: TensorKind, count: u32) -> Vec<ExpertInputs> {
        let of_expert = |expert| {
            let moments = self.stats.moments(kind, Some(expert));
            let squares = moments.map(|moments| moments.mean_square().iter().map(|x| *x as f32).collect());
            let share = self.stats.expert_tokens(kind, expert) as f64;
            ExpertInputs { share, squares: squares.map(Arc::new) }
        };
        (0..count).map(of_expert).collect()
    }
}

/// How far targets of a matrix of `cols` columns go, where the text has so many tokens.
fn correction_part(tokens: u64, cols: usize) -> f32 {
    let tokens = tokens as f64;
    (CORRECTION * tokens / (tokens + TOKENS_OF_COLUMN * cols as f64)) as f32
}

/// Whether all matrices that read the input have the same fit. Head and embedding have not; and what experts read stands in for
/// the inputs of those that saw too little.
fn read_by_one_fit(input: LinearInput) -> bool {
    use LinearInput::*;
    !matches!(input, Head | Ffn | Experts | ExpertFfn(_) | ExpertDown(_))
}
