//! The tensors of a layer as they are computed with, and which gradients are theirs.

use qsf_format::{ModelConfig, NormKind, TensorId, TensorKind};
use qsf_runtime::source::{Tensor, WeightSource, expected_shape};
use qsf_runtime::{Result, RuntimeError};

use super::linear::Linear;
use super::norm::Norm;
use super::sink::MatrixPart;

/// What is loaded, and for which layer.
#[derive(Clone, Copy)]
pub(super) struct Parameters<'a> {
    pub source: &'a dyn WeightSource,
    pub layer: Option<u32>,
}

impl<'a> Parameters<'a> {
    pub fn config(&self) -> &'a ModelConfig {
        self.source.config()
    }

    fn id(&self, kind: TensorKind) -> TensorId {
        TensorId { layer: self.layer, kind }
    }

    /// Whether the model computes with such a tensor.
    pub fn is_used(&self, kind: TensorKind) -> bool {
        expected_shape(self.config(), self.id(kind)).is_some()
    }

    /// The tensor, where the model has it.
    pub fn tensor(&self, kind: TensorKind) -> Result<Option<Tensor>> {
        let id = self.id(kind);
        let there = self.source.tensors().iter().any(|info| info.id == id);
        there.then(|| self.source.load(id)).transpose()
    }

    /// A tensor that must be there.
    pub fn needed(&self, kind: TensorKind) -> Result<Tensor> {
        let missing =
            || RuntimeError::bad_input(self.source.path(), self.id(kind).to_string(), "this tensor", "none");
        self.tensor(kind)?.ok_or_else(missing)
    }

    /// A vector, where the model has it and computes with it.
    pub fn vector(&self, kind: TensorKind) -> Result<Option<Vec<f32>>> {
        let used = self.is_used(kind);
        Ok(self.tensor(kind)?.filter(|_| used).map(|tensor| tensor.to_f32()))
    }

    /// A matrix and its bias.
    pub fn linear(&self, kind: TensorKind, bias: Option<TensorKind>) -> Result<Linear> {
        let mut all = self.stacked(kind, bias, 1)?;
        all.pop().ok_or_else(|| RuntimeError::Request("a matrix of no parts".into()))
    }

    /// The matrix and its bias, where the model has such a one.
    pub fn linear_if_used(&self, kind: TensorKind, bias: Option<TensorKind>) -> Result<Option<Linear>> {
        self.is_used(kind).then(|| self.linear(kind, bias)).transpose()
    }

    /// Matrices that are one tensor.
    pub fn stacked(&self, kind: TensorKind, bias: Option<TensorKind>, count: usize) -> Result<Vec<Linear>> {
        let tensor = self.needed(kind)?;
        let bias = match bias {
            Some(kind) => self.vector(kind)?.map(|values| (kind, values)),
            None => None,
        };
        let (all_rows, rows) = (tensor.rows(), tensor.rows() / count);
        let one = |e: usize| {
            let of_it = e * rows..(e + 1) * rows;
            let part = MatrixPart { id: self.id(kind), first_row: of_it.start, rows, all_rows };
            let bias = bias.as_ref().map(|(kind, values)| (*kind, values[of_it.clone()].to_vec()));
            let tensor = if count == 1 { tensor.clone() } else { tensor.slice_rows(of_it) };
            Linear::new(part, tensor, bias)
        };
        Ok((0..count).map(one).collect())
    }

    /// A norm of the residual stream.
    pub fn stream_norm(&self, gain: TensorKind, bias: Option<TensorKind>) -> Result<Norm> {
        let config = self.config();
        let width = config.hidden as usize;
        let mut norm = match self.is_used(gain) {
            true => self.norm(gain, config.norm.kind, width)?,
            // The model has it all the same, with gains of 1.
            false => self.plain_norm(config.norm.kind, width),
        };
        if let Some(kind) = bias {
            norm.bias = self.vector(kind)?.map(|values| (kind, values));
        }
        Ok(norm)
    }

    /// A norm over runs of `width` values.
    pub fn norm(&self, gain: TensorKind, kind: NormKind, width: usize) -> Result<Norm> {
        let mut gains = self.needed(gain)?.to_f32();
        if self.config().norm.gain_plus_one {
            gains.iter_mut().for_each(|gain| *gain += 1.0);
        }
        Ok(Norm { gain: (Some(gain), gains), ..self.plain_norm(kind, width) })
    }

    /// The same without gains.
    pub fn plain_norm(&self, kind: NormKind, width: usize) -> Norm {
        let epsilon = self.config().norm.epsilon;
        Norm { gain: (None, vec![1.0; width]), bias: None, kind, epsilon, width }
    }
}
