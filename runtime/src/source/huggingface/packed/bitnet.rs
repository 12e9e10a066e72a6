//! Matrices as BitNet's checkpoints pack them. For a layer `X` with `in` inputs and `out` outputs:
//!
//! | Tensor | Shape | Holds |
//! |---|---|---|
//! | `X.weight` | out / 4, in | bytes of four codes of 2 bits, the lowest first: rows r, r + out / 4, r + out / 2, ... |
//! | `X.weight_scale` | 1 | what -1, 0 and 1 are multiplied with, or divided by |
//!
//! A code less 1 is the ternary value (`integrations/bitnet.py` of transformers).

use std::sync::Arc;

use super::matrix::PackedMatrix;
use super::packed_part::PackedPart;
use crate::error::Result;
use crate::source::mapping::TensorStore;
use crate::tensor::{ForeignRows, StoredType, TERNARY, Tensor, TensorBytes};
use qsf_cpu::Isa;

/// Rows whose codes are in one row of bytes.
const ROWS: usize = 4;

/// How the scale counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Bitnet {
    /// Whether values are divided by it (`bitlinear`), not multiplied with it (`autobitlinear`).
    pub divides: bool,
}

#[derive(Debug)]
struct Matrix {
    format: Bitnet,
    codes: String,
    scale: String,
    shape: [usize; 2],
}

impl Bitnet {
    /// The matrix of the layer `stem`.
    pub(super) fn matrix(self, stem: &str, store: &dyn TensorStore) -> Result<Box<dyn PackedMatrix>> {
        let (codes, scale) = (format!("{stem}.weight"), format!("{stem}.weight_scale"));
        let packed = PackedPart::new(store, &codes, &scale)?;
        packed.need_bytes()?;
        let [rows, cols] = packed.matrix_shape()?;
        let outputs = rows.checked_mul(ROWS).ok_or_else(|| packed.wrong("fewer rows", rows))?;
        let factor = PackedPart::new(store, &scale, &codes)?;
        factor.need_floats()?;
        if factor.shape().iter().product::<usize>() != 1 {
            return Err(factor.wrong("one value", format!("shape {:?}", factor.shape())));
        }
        Ok(Box::new(Matrix { format: self, codes, scale, shape: [outputs, cols] }))
    }
}

impl PackedMatrix for Matrix {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn stored_type(&self) -> StoredType {
        STORED
    }

    fn parts(&self) -> Vec<&str> {
        vec![&self.codes, &self.scale]
    }

    fn load(&self, store: &dyn TensorStore) -> Result<Tensor> {
        let factor = PackedPart::new(store, &self.scale, &self.codes)?;
        let value = factor.floats()?.to_f32().first().copied().unwrap_or_default();
        let scale = if self.format.divides { 1.0 / value } else { value };
        if !scale.is_finite() {
            return Err(factor.wrong("a scale that is a finite number", value));
        }
        let codes = PackedPart::new(store, &self.codes, &self.scale)?.bytes()?;
        let [rows, cols] = self.shape;
        Ok(Tensor::foreign(
            rows,
            cols,
            Arc::new(TernaryRows { codes, scale, packed_rows: rows / ROWS, cols }),
        ))
    }
}

/// These models were trained in it: there is no original that another file would be nearer to.
const STORED: StoredType = StoredType::Foreign(TERNARY);

#[derive(Debug)]
struct TernaryRows {
    codes: TensorBytes,
    scale: f32,
    packed_rows: usize,
    cols: usize,
}

impl ForeignRows for TernaryRows {
    fn stored_type(&self) -> StoredType {
        STORED
    }

    fn row_bytes(&self) -> usize {
        self.cols.div_ceil(ROWS)
    }

    fn decode_row(&self, _: Isa, row: usize, out: &mut [f32]) {
        let bytes = &self.codes.as_slice()[row % self.packed_rows * self.cols..][..self.cols];
        let shift = row / self.packed_rows * 2;
        for (value, byte) in out.iter_mut().zip(bytes) {
            *value = (f32::from(byte >> shift & 3) - 1.0) * self.scale;
        }
    }
}
