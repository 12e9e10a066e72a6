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

/// Of each matrix of a layer with n outputs, n x n values: for i <= j the sum over tokens of `g[i] * g[j]`, in any unit.
pub type OutputMoments = BTreeMap<TensorKind, Vec<f32>>;

impl GradientText<'_> {
    /// Takes gradients of tokens that the model itself draws, so that the moments are those of the Fisher information. `receive`
    /// gets the moments of each layer, from the last to the first.
    ///
    /// Experts that write to the residual stream share their moment, as they share their outputs. The others have none: each
    /// sees too few tokens.
    ///
    /// # Errors
    /// As [`GradientText::gradients`], and those of `receive`.
    pub fn output_moments(
        &self,
        seed: u64,
        receive: &mut dyn FnMut(u32, OutputMoments) -> Result<()>,
    ) -> GradientResult<()> {
        // Gradients of a mean are small; their squares would leave the range of f32 with a long text.
        let scale = self.sequences.iter().map(|tokens| tokens.len()).sum::<usize>() as f32;
        let mut sums = Sums { cpu: self.cpu, scale, layer: None, moments: BTreeMap::new(), receive };
        self.gradients(Target::Drawn(seed), &mut sums)?;
        Ok(sums.hand_out()?)
    }
}

/// The sums of one layer.
struct Sums<'a> {
    cpu: &'a Cpu,
    scale: f32,
    layer: Option<u32>,
    moments: OutputMoments,
    receive: &'a mut dyn FnMut(u32, OutputMoments) -> Result<()>,
}

impl Sums<'_> {
    fn hand_out(&mut self) -> Result<()> {
        match self.layer {
            Some(layer) => (self.receive)(layer, std::mem::take(&mut self.moments)),
            None => Ok(()),
        }
    }
}

impl GradientVisitor for Sums<'_> {
    fn wants(&self, _: TensorId) -> bool {
        false
    }

    fn products(&mut self, part: MatrixPart, _: &[f32], outputs: &[f32]) -> Result<()> {
        let MatrixPart { id, rows, all_rows, .. } = part;
        if id.layer.is_none() {
            return Ok(());
        }
        if self.layer != id.layer {
            self.hand_out()?;
            self.layer = id.layer;
        }
        if outputs.is_empty() || (rows != all_rows && id.kind != TensorKind::ExpertDown) {
            return Ok(());
        }
        let scaled: Vec<f32> = outputs.iter().map(|value| value * self.scale).collect();
        let mut panels = ColumnPanels::new();
        panels.fill(self.cpu, &scaled, rows);
        let sums = match self.moments.entry(id.kind) {
            Entry::Occupied(sums) => sums.into_mut(),
            Entry::Vacant(place) => {
                place.insert(zeros(rows.saturating_mul(rows), "second moment of gradients")?)
            }
        };
        self.cpu.add_second_moment(&panels, sums);
        Ok(())
    }

    fn gradient(&mut self, _: TensorId, _: &[f32]) -> Result<()> {
        Ok(())
    }
}
