//! What tensors are multiplied by: rows of matrices whose type stores a scale for each, and gains of norms.

use std::collections::BTreeMap;

use qsf_format::{ModelConfig, QuantType, TensorId, TensorKind};
use qsf_runtime::Result;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::source::{Replaced, Tensor, WeightSource};

use crate::gradient::GradientVisitor;

/// A factor for every row of some matrices, and for every gain of some norms.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Factors {
    of: BTreeMap<TensorId, Vec<f32>>,
}

impl FromIterator<(TensorId, Vec<f32>)> for Factors {
    fn from_iter<T: IntoIterator<Item = (TensorId, Vec<f32>)>>(of: T) -> Factors {
        Factors { of: of.into_iter().collect() }
    }
}

impl Factors {
    /// Factors of 1 for all that can be multiplied of `model`.
    ///
    /// # Errors
    /// When a tensor is damaged.
    pub fn ones(model: &dyn WeightSource) -> Result<Factors> {
        let mut of = BTreeMap::new();
        for info in model.tensors() {
            let tensor = model.load(info.id)?;
            let is_gain =
                is_gain(info.id.kind) && tensor.stored_type().native().is_some_and(QuantType::is_float);
            if is_gain || tensor.has_row_scales() {
                of.insert(info.id, vec![1.0; if is_gain { tensor.cols() } else { tensor.rows() }]);
            }
        }
        Ok(Factors { of })
    }

    /// Whether nothing is multiplied.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The factors of a tensor.
    pub fn of(&self, id: TensorId) -> Option<&[f32]> {
        self.of.get(&id).map(Vec::as_slice)
    }

    /// All tensors with their factors.
    pub fn iter(&self) -> impl Iterator<Item = (TensorId, &[f32])> {
        self.of.iter().map(|(id, factors)| (*id, factors.as_slice()))
    }

    pub(super) fn of_mut(&mut self, id: TensorId) -> Option<&mut [f32]> {
        self.of.get_mut(&id).map(Vec::as_mut_slice)
    }

    /// `model` with everything multiplied, as it would be stored.
    ///
    /// # Errors
    /// When a tensor is damaged, or factors are of another model.
    pub(super) fn applied<'a>(&self, model: &'a dyn WeightSource) -> Result<Replaced<'a>> {
        let mut replaced = Replaced::new(model);
        for (id, factors) in &self.of {
            let tensor = model.load(*id)?;
            let multiplied = match is_gain(id.kind) {
                true => {
                    let gains = multiplied_gains(model.config(), &tensor.to_f32(), factors);
                    tensor.with_values(&gains).unwrap_or(tensor)
                }
                false => tensor.with_row_factors(factors),
            };
            replaced.replace(*id, multiplied)?;
        }
        Ok(replaced)
    }
}

/// Gains of a norm, as they are stored, so that it multiplies with `factors` times as much.
pub fn multiplied_gains(config: &ModelConfig, gains: &[f32], factors: &[f32]) -> Vec<f32> {
    let one = if config.norm.gain_plus_one { 1.0 } else { 0.0 };
    gains.iter().zip(factors).map(|(gain, factor)| (one + gain) * factor - one).collect()
}

/// Whether a tensor is the gains of a norm that has a gradient.
pub fn is_gain(kind: TensorKind) -> bool {
    use TensorKind::*;
    matches!(
        kind,
        AttnNorm
            | FfnNorm
            | QNorm
            | KNorm
            | PostAttnNorm
            | PostFfnNorm
            | AttnSubNorm
            | FfnSubNorm
            | FinalNorm
            | EmbeddingNorm
    )
}

/// Makes gradients at factors from those at tensors.
pub(super) struct FactorGradients<'a> {
    pub cpu: &'a Cpu,
    /// The model that the gradients are of: everything is multiplied.
    pub model: &'a Replaced<'a>,
    pub factors: &'a Factors,
    pub found: BTreeMap<TensorId, Vec<f64>>,
}

impl GradientVisitor for FactorGradients<'_> {
    fn wants(&self, id: TensorId) -> bool {
        self.factors.of.contains_key(&id)
    }

    fn gradient(&mut self, id: TensorId, gradient: &[f32]) -> Result<()> {
        let Some(factors) = self.factors.of(id) else { return Ok(()) };
        let tensor = self.model.load(id)?;
        // A value is its factor times what it was at first: the gradient at the factor is the sum of those at its values, each times
        // the value over the factor.
        let found = if is_gain(id.kind) {
            let one = if self.model.config().norm.gain_plus_one { 1.0 } else { 0.0 };
            let gains = tensor.to_f32();
            let values = gains.iter().zip(gradient).zip(factors);
            values
                .map(|((gain, at), factor)| f64::from(one + gain) * f64::from(*at) / f64::from(*factor))
                .collect()
        } else {
            self.of_rows(&tensor.without_outliers(), gradient, factors)
        };
        self.found.insert(id, found);
        Ok(())
    }
}

impl FactorGradients<'_> {
    fn of_rows(&self, tensor: &Tensor, gradient: &[f32], factors: &[f32]) -> Vec<f64> {
        let (cols, isa) = (tensor.cols(), self.cpu.isa());
        // A value of f64 in two of f32.
        let mut sums = vec![0.0; 2 * tensor.rows()];
        self.cpu.for_each_rows([(&mut sums, 2)], 4 * cols, |first, [sums]| {
            let mut values = vec![0.0; cols];
            for (row, sum) in (first..).zip(sums.chunks_exact_mut(2)) {
                tensor.decode_row(isa, row, &mut values);
                let along = values.iter().zip(&gradient[row * cols..][..cols]);
                let along: f64 = along.map(|(value, at)| f64::from(*value) * f64::from(*at)).sum();
                sum[0] = along as f32;
                sum[1] = (along - f64::from(sum[0])) as f32;
            }
        });
        let sums = sums.chunks_exact(2).zip(factors);
        sums.map(|(sum, factor)| (f64::from(sum[0]) + f64::from(sum[1])) / f64::from(*factor)).collect()
    }
}
