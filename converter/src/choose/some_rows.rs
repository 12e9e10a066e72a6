//! A matrix of which only some rows are quantized.

use qsf_runtime::cpu::Isa;
use qsf_runtime::source::{ForeignRows, StoredType, Tensor};

/// Rows of a quantized matrix where `chosen` says so, else those of the original.
#[derive(Debug)]
pub(super) struct SomeRows {
    original: Tensor,
    quantized: Tensor,
    chosen: Vec<bool>,
}

impl SomeRows {
    /// With the rows `chosen` of `quantized`, a matrix of the same shape.
    pub(super) fn new(original: &Tensor, quantized: &Tensor, chosen: &[u32]) -> SomeRows {
        let mut all = vec![false; original.rows()];
        chosen.iter().for_each(|row| all[*row as usize] = true);
        SomeRows { original: original.clone(), quantized: quantized.clone(), chosen: all }
    }
}

impl ForeignRows for SomeRows {
    fn stored_type(&self) -> StoredType {
        self.original.stored_type()
    }

    fn row_bytes(&self) -> usize {
        (self.original.stored_bytes() / self.original.rows().max(1) as u64) as usize
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        let tensor = if self.chosen[row] { &self.quantized } else { &self.original };
        tensor.decode_row(isa, row, out);
    }
}
