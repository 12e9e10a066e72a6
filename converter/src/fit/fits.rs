//! What each matrix is fitted to, from statistics of what it reads: how much each column matters, and the moments.

use std::collections::HashMap;
use std::sync::Arc;

use qsf_calibration::{Detail, LayerStats, Step};
use qsf_format::{ModelConfig, TensorId, TensorKind};
use qsf_runtime::LinearInput;
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::Tensor;

use crate::encode::Fit;
use crate::error::{ConvertError, Result};
use crate::inputs::input_of;
use crate::plan::experts_of;
use crate::quantize::{Correction, Feedback};

/// Damping of second moments, as a part of the mean of their diagonal (GPTQ's, arXiv 2210.17323).
const DAMPING: f32 = 0.01;
/// How far targets go from the original weights to those that make up for what the quantized layers before change, best
/// between a quarter and a half (GPTAQ, arXiv 2504.02692, and docs/quantization.md).
const CORRECTION: f32 = 0.5;
/// Share of the mean that every column of a tied embedding gets on top of its moment as a head: as an embedding, all of its
/// columns matter alike.
const EMBEDDING_SHARE: f64 = 0.3;

/// The fits of the matrices of one step; those that read the same inputs share theirs.
pub(crate) struct Fits<'a> {
    isa: Isa,
    stats: &'a LayerStats,
    cross: Option<&'a Step>,
    made: HashMap<(LinearInput, bool), Fit>,
}

impl<'a> Fits<'a> {
    /// Fits by `stats` alone.
    pub fn of_stats(isa: Isa, stats: &'a LayerStats) -> Fits<'a> {
        Fits { isa, stats, cross: None, made: HashMap::new() }
    }

    /// Fits that make up for what came before, too.
    pub fn of_step(isa: Isa, step: &'a Step) -> Fits<'a> {
        Fits { isa, stats: &step.stats, cross: Some(step), made: HashMap::new() }
    }

    /// The fit of a matrix; of the expert `expert`, where it is a stack of them. Nothing for tensors that multiply nothing.
    ///
    /// # Errors
    /// When the moments are none.
    pub fn of(&mut self, id: TensorId, expert: Option<u32>) -> Result<Fit> {
        let latent = self.stats.inputs.contains_key(&LinearInput::QueryLatent);
        let Some(input) = input_of(id.kind, expert, latent) else { return Ok(Fit::default()) };
        let embedding = id.kind == TensorKind::TokenEmbedding;
        if let Some(fit) = self.made.get(&(input, embedding)) {
            return Ok(fit.clone());
        }
        let Some(moments) = self.stats.moments(id.kind, expert) else { return Ok(Fit::default()) };
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
        let Some(mut moment) = moments.into_owned().into_second_moment() else { return Ok(Fit::default()) };
        if embedding {
            let mean = (0..cols).map(|i| f64::from(moment[i * cols + i])).sum::<f64>() / cols as f64;
            (0..cols).for_each(|i| moment[i * cols + i] += (EMBEDDING_SHARE * mean) as f32);
        }
        let importance = Arc::new((0..cols).map(|i| moment[i * cols + i]).collect());
        let refused = |source| ConvertError::Moments { id, source };
        let feedback = Arc::new(Feedback::new(self.isa, &moment, DAMPING).map_err(refused)?);
        let cross = self.cross.filter(|_| !embedding).and_then(|step| step.cross.get(&input));
        let correction = cross.map(|cross| {
            Arc::new(Correction::new(&feedback, &moment, &cross.clone().into_mean(), CORRECTION))
        });
        let moment = Some(Tensor::from_f32(cols, cols, &moment));
        let fit = Fit { importance: Some(importance), feedback: Some(feedback), correction, moment };
        self.made.insert((input, embedding), fit.clone());
        Ok(fit)
    }
}

impl Fits<'_> {
    /// The fit of a tensor of a model of this `config`, or, of a stack of experts, that of each.
    ///
    /// # Errors
    /// When the moments are none.
    pub fn all(&mut self, config: &ModelConfig, id: TensorId) -> Result<Vec<Fit>> {
        match experts_of(config, id) {
            None => Ok(vec![self.of(id, None)?]),
            Some(count) => (0..count).map(|expert| self.of(id, Some(expert))).collect(),
        }
    }
}
