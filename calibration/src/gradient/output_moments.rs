//! Second moments of gradients at what matrices give: how much errors of each row change the predictions, and which rows can make
//! up for one another (YAQA, arXiv 2505.22988).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use qsf_format::{TensorId, TensorKind};
use qsf_runtime::Result;
use qsf_runtime::cpu::{ColumnPanels, Cpu, zeros};

use super::error::GradientResult;
use super::pass::{GradientText, Target};
use super::sink::{GradientVisitor, MatrixPart};

/// What gradients at the outputs of the matrices of a layer say. The gradients g are those of the sum over all tokens of the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutputMoments {
    /// Of each matrix with n outputs, n x n values: for i <= j the sum over tokens of `g[i] * g[j]`. Of the token embedding, n is its
    /// columns.
    pub moments: BTreeMap<TensorKind, Vec<f32>>,
    /// Of each stack of experts, for each of these the sum of all `g[i] * g[i]` over the tokens that went through it.
    pub experts: BTreeMap<TensorKind, Vec<f32>>,
}

impl GradientText<'_> {
    /// Takes gradients of tokens that the model itself draws, so that the moments are those of the Fisher information. `receive`
    /// gets the moments of each layer, from the last to the first, and then that of the token embedding's rows.
    ///
    /// Experts that write to the residual stream share their moment, as they share their outputs. The others have none: each
    /// sees too few tokens. All have a sum of squares.
    ///
    /// # Errors
    /// As [`GradientText::gradients`], and those of `receive`.
    pub fn output_moments(
        &self,
        seed: u64,
        receive: &mut dyn FnMut(Option<u32>, OutputMoments) -> Result<()>,
    ) -> GradientResult<()> {
        // Gradients of a mean are small; their squares would leave the range of f32 with a long text.
        let scale = self.sequences.iter().map(|tokens| tokens.len()).sum::<usize>() as f32;
        let mut sums = Sums { cpu: self.cpu, scale, layer: None, found: OutputMoments::default(), receive };
        self.gradients(Target::Drawn(seed), &mut sums)?;
        Ok(sums.hand_out(None)?)
    }
}

/// The sums of one layer.
struct Sums<'a> {
    cpu: &'a Cpu,
    scale: f32,
    layer: Option<u32>,
    found: OutputMoments,
    receive: &'a mut dyn FnMut(Option<u32>, OutputMoments) -> Result<()>,
}

impl Sums<'_> {
    /// Hands the moments of the layer out that is done, before those of the `next` begin.
    fn hand_out(&mut self, next: Option<u32>) -> Result<()> {
        let done = std::mem::replace(&mut self.layer, next);
        if self.found.moments.is_empty() && done.is_none() {
            return Ok(());
        }
        (self.receive)(done, std::mem::take(&mut self.found))
    }

    /// Adds gradients, `rows` values each.
    fn add(&mut self, kind: TensorKind, gradients: &[f32], rows: usize) -> Result<()> {
        let scaled: Vec<f32> = gradients.iter().map(|value| value * self.scale).collect();
        let mut panels = ColumnPanels::new();
        panels.fill(self.cpu, &scaled, rows);
        let sums = match self.found.moments.entry(kind) {
            Entry::Occupied(sums) => sums.into_mut(),
            Entry::Vacant(place) => {
                place.insert(zeros(rows.saturating_mul(rows), "second moment of gradients")?)
            }
        };
        self.cpu.add_second_moment(&panels, sums);
        Ok(())
    }

    /// Adds the squares of gradients at what an expert gave.
    fn add_expert(&mut self, part: MatrixPart, gradients: &[f32]) {
        let MatrixPart { id, first_row, rows, all_rows } = part;
        let sums = self.found.experts.entry(id.kind).or_insert_with(|| vec![0.0; all_rows / rows]);
        let squares = gradients.iter().map(|value| f64::from(value * self.scale).powi(2));
        sums[first_row / rows] += squares.sum::<f64>() as f32;
    }
}

impl GradientVisitor for Sums<'_> {
    fn wants(&self, _: TensorId) -> bool {
        false
    }

    fn products(&mut self, part: MatrixPart, _: &[f32], outputs: &[f32]) -> Result<()> {
        use TensorKind::*;
        let MatrixPart { id, rows, all_rows, .. } = part;
        if id.layer.is_none() {
            return Ok(());
        }
        if self.layer != id.layer {
            self.hand_out(id.layer)?;
        }
        if outputs.is_empty() {
            return Ok(());
        }
        let of_expert = matches!(id.kind, ExpertGate | ExpertUp | ExpertDown);
        if of_expert {
            self.add_expert(part, outputs);
        }
        if rows != all_rows && id.kind != ExpertDown {
            return Ok(());
        }
        self.add(id.kind, outputs, rows)
    }

    fn embedded(&mut self, gradients: &[f32], width: usize) -> Result<()> {
        if self.layer.is_some() {
            self.hand_out(None)?;
        }
        self.add(TensorKind::TokenEmbedding, gradients, width)
    }

    fn gradient(&mut self, _: TensorId, _: &[f32]) -> Result<()> {
        Ok(())
    }
}
