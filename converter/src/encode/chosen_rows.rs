//! Some rows of a matrix as a matrix of their own.

use std::sync::Arc;

use qsf_runtime::cpu::Isa;
use qsf_runtime::source::{ForeignRows, StoredType, Tensor};

#[derive(Debug)]
struct ChosenRows {
    tensor: Tensor,
    rows: Vec<u32>,
}

/// These rows of `tensor`, in this order.
pub(super) fn choose_rows(tensor: &Tensor, rows: Vec<u32>) -> Tensor {
    Tensor::foreign(rows.len(), tensor.cols(), Arc::new(ChosenRows { tensor: tensor.clone(), rows }))
}

impl ForeignRows for ChosenRows {
    fn stored_type(&self) -> StoredType {
        self.tensor.stored_type()
    }

    fn row_bytes(&self) -> usize {
        (self.tensor.stored_bytes() / self.tensor.rows().max(1) as u64) as usize
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        self.tensor.decode_row(isa, self.rows[row] as usize, out);
    }
}
