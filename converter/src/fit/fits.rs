//! What a matrix is fitted to: how much each column matters, or the moments of its inputs.

use std::collections::HashMap;
use std::sync::Arc;

use qsf_calibration::{LayerStats, Step};
use qsf_format::{TensorId, TensorKind};
use qsf_runtime::LinearInput;
use qsf_runtime::cpu::lanes::dot;
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::linear::Input;
use qsf_runtime::source::Tensor;

use crate::encode::tensor::Job;
use crate::error::{ConvertError, Result};
use crate::quantize::{Correction, Feedback};

/// Damping of second moments, as a part of the mean of their diagonal (GPTQ's, arXiv 2210.17323).
const DAMPING: f32 = 0.01;
/// How far targets go from the original weights to those that make up for what the quantized layers before change, best
/// between a quarter and a half (GPTAQ, arXiv 2504.02692, and docs/quantization.md).
const CORRECTION: f32 = 0.5;
/// Share of the mean that every column of a tied embedding gets on top of its moment as a head: as an embedding, all of its
/// columns matter alike.
const EMBEDDING_SHARE: f64 = 0.3;

/// What the rows of one matrix are fitted to. Nothing: every value counts alike.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fit {
    /// Weights of the columns in the error, where there is no feedback for a type.
    pub importance: Option<Arc<Vec<f32>>>,
    /// Moments of the inputs.
    pub feedback: Option<Arc<Feedback>>,
    /// To weights that make up for what the quantized layers before have changed.
    pub correction: Option<Arc<Correction>>,
    /// The mean of x x' over inputs x.
    moment: Option<Tensor>,
}

impl Fit {
    /// Puts the row of the moment for column `col` into `out`; `false` where there is none.
    pub fn moment_row(&self, col: usize, out: &mut [f32]) -> bool {
        let Some(moment) = &self.moment else { return false };
        moment.decode_row(Isa::SCALAR, col, out);
        true
    }

    /// What errors of some rows do to their outputs: the sum over the rows e of `e H e'`, with H the moment; without one,
    /// of squares.
    pub fn output_error(&self, cpu: &Cpu, cols: usize, errors: &[f32]) -> f64 {
        let Some(moment) = &self.moment else {
            return errors.iter().map(|e| f64::from(*e).powi(2)).sum();
        };
        let mut pulls = vec![0.0; errors.len()];
        cpu.linear(moment, None, &Input::float(errors, cols), &mut pulls);
        let rows = errors.chunks_exact(cols).zip(pulls.chunks_exact(cols));
        rows.map(|(errors, pulls)| f64::from(dot(errors, pulls))).sum()
    }
}

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
        let Some(input) = input_of(id.kind, expert) else { return Ok(Fit::default()) };
        let embedding = id.kind == TensorKind::TokenEmbedding;
        if let Some(fit) = self.made.get(&(input, embedding)) {
            return Ok(fit.clone());
        }
        let Some(moments) = self.stats.moments(id.kind, expert) else { return Ok(Fit::default()) };
        let cols = moments.cols();
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
    /// The fit of a tensor, or, of a stack of experts, that of each.
    ///
    /// # Errors
    /// When the moments are none.
    pub fn all(&mut self, job: &Job<'_>, id: TensorId) -> Result<Vec<Fit>> {
        match job.experts(id) {
            None => Ok(vec![self.of(id, None)?]),
            Some(count) => (0..count).map(|expert| self.of(id, Some(expert))).collect(),
        }
    }
}

/// What matrices of a kind read.
fn input_of(kind: TensorKind, expert: Option<u32>) -> Option<LinearInput> {
    use TensorKind::*;
    Some(match (kind, expert) {
        (AttnQ | AttnK | AttnV, _) => LinearInput::Attention,
        (AttnOutput, _) => LinearInput::AttnOutput,
        (ExpertGate | ExpertUp, Some(expert)) => LinearInput::ExpertFfn(expert),
        (FfnGate | FfnUp | ExpertGate | ExpertUp, _) => LinearInput::Ffn,
        (ExpertDown, Some(expert)) => LinearInput::ExpertDown(expert),
        (FfnDown | ExpertDown, _) => LinearInput::FfnDown,
        (Head | TokenEmbedding, _) => LinearInput::Head,
        _ => return None,
    })
}
