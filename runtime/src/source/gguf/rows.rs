//! Rows in a type of ggml, decoded as they are needed.

use std::sync::Arc;

use crate::ggml::{self, GgmlType};
use crate::tensor::{ForeignRows, ForeignType, StoredType, Tensor, TensorBytes};
use qsf_cpu::Isa;

/// The rows of a tensor.
#[derive(Debug)]
pub(super) struct GgmlRows {
    ty: GgmlType,
    row_bytes: usize,
    bytes: TensorBytes,
    /// What the values are multiplied with: nothing, one number, or one for each of as many equal parts (experts).
    scales: Vec<f32>,
    rows_per_scale: usize,
}

impl GgmlRows {
    /// `rows` rows of `cols` values; `None` when `bytes` are not that many, or `scales` do not divide the rows.
    pub fn new(
        ty: GgmlType,
        rows: usize,
        cols: usize,
        bytes: TensorBytes,
        scales: Vec<f32>,
    ) -> Option<GgmlRows> {
        let row_bytes = (cols / ty.block_len()).checked_mul(ty.block_bytes())?;
        let whole = cols.is_multiple_of(ty.block_len())
            && row_bytes.checked_mul(rows) == Some(bytes.as_slice().len())
            && rows.is_multiple_of(scales.len().max(1));
        let rows_per_scale = (rows / scales.len().max(1)).max(1);
        whole.then_some(GgmlRows { ty, row_bytes, bytes, scales, rows_per_scale })
    }
}

impl Tensor {
    /// A tensor of so many rows in a type of ggml; `None` when these are not its bytes.
    pub fn of_ggml(ty: GgmlType, rows: usize, cols: usize, bytes: TensorBytes) -> Option<Tensor> {
        let values = GgmlRows::new(ty, rows, cols, bytes, Vec::new())?;
        Some(Tensor::foreign(rows, cols, Arc::new(values)))
    }
}

/// How messages and reports call a type.
pub(super) fn stored_type(ty: GgmlType) -> StoredType {
    let quantized = ty.block_len() > 1 || ty == GgmlType::I8;
    StoredType::Foreign(ForeignType { name: ty.name(), quantized })
}

impl ForeignRows for GgmlRows {
    fn stored_type(&self) -> StoredType {
        stored_type(self.ty)
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        let bytes = &self.bytes.as_slice()[row * self.row_bytes..][..self.row_bytes];
        ggml::decode_row(isa, self.ty, bytes, out);
        if let Some(scale) = self.scales.get(row / self.rows_per_scale) {
            out.iter_mut().for_each(|value| *value *= scale);
        }
    }
}
