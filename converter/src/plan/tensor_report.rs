//! What is reported of a tensor that was stored.

use qsf_format::{TensorId, TensorRecord};
use serde::{Deserialize, Serialize};

use super::tensor_type::TensorType;

/// How a tensor was stored, and how far that is from the original.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorReport {
    /// Layer, of those that are in one.
    pub layer: Option<u32>,
    /// Name of its kind.
    pub kind: String,
    /// Rows; 1 for vectors.
    pub rows: u32,
    /// Values per row.
    pub cols: u32,
    /// The type.
    pub quant: TensorType,
    /// Weights that are stored apart from the blocks.
    pub outliers: u64,
    /// The type that was planned, where it is another.
    pub promoted_from: Option<TensorType>,
    /// Cosine with the original; none where that is no number.
    pub cosine: Option<f64>,
    /// Norm of the error over that of the original.
    pub relative_error: Option<f64>,
    /// Largest error of a value.
    pub max_abs_error: Option<f64>,
}

impl TensorReport {
    /// What META of a QSF file says of the tensor; nothing of one in a type that such a file cannot have.
    pub fn for_meta(&self) -> Option<TensorRecord> {
        Some(TensorRecord {
            layer: self.layer,
            kind: self.kind.clone(),
            rows: self.rows,
            cols: self.cols,
            quant: self.quant.qsf()?,
            outliers: self.outliers,
            promoted_from: self.promoted_from.and_then(TensorType::qsf),
            cosine: self.cosine,
            relative_error: self.relative_error,
            max_abs_error: self.max_abs_error,
        })
    }

    /// Says how far what is stored is from the original; nothing of what is no number.
    pub(crate) fn set_errors(&mut self, cosine: f64, relative_error: f64, max_abs_error: f64) {
        let finite = |measure: f64| Some(measure).filter(|measure| measure.is_finite());
        self.cosine = finite(cosine);
        self.relative_error = finite(relative_error);
        self.max_abs_error = finite(max_abs_error);
    }

    /// The cosine; 0 where there is none.
    pub fn cosine_or_zero(&self) -> f64 {
        self.cosine.unwrap_or(0.0)
    }

    /// What the tensor is called.
    pub fn name(&self) -> String {
        match self.layer {
            Some(layer) => format!("layer {layer} {}", self.kind),
            None => self.kind.clone(),
        }
    }

    /// Whether it is about the tensor `id`.
    pub fn is_of(&self, id: TensorId) -> bool {
        self.layer == id.layer && self.kind == id.kind.name()
    }
}
