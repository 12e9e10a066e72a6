//! Some rows of a matrix as a matrix of their own, or changed in the matrix.

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
        row_bytes(&self.tensor)
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        self.tensor.decode_row(isa, self.rows[row] as usize, out);
    }
}

#[derive(Debug)]
struct MixedRows {
    tensor: Tensor,
    changed: Tensor,
    /// Where each row is in `changed`.
    place: Vec<Option<u32>>,
}

/// `tensor` with the rows of `changed` as its rows `rows`.
pub(crate) fn mix_rows(tensor: &Tensor, changed: &Tensor, rows: &[u32]) -> Tensor {
    let mut place = vec![None; tensor.rows()];
    for (i, row) in (0..).zip(rows) {
        place[*row as usize] = Some(i);
    }
    let mixed = MixedRows { tensor: tensor.clone(), changed: changed.clone(), place };
    Tensor::foreign(tensor.rows(), tensor.cols(), Arc::new(mixed))
}

impl ForeignRows for MixedRows {
    fn stored_type(&self) -> StoredType {
        self.tensor.stored_type()
    }

    fn row_bytes(&self) -> usize {
        row_bytes(&self.tensor)
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        match self.place[row] {
            Some(place) => self.changed.decode_row(isa, place as usize, out),
            None => self.tensor.decode_row(isa, row, out),
        }
    }
}

/// Stored bytes of a row, on the average.
fn row_bytes(tensor: &Tensor) -> usize {
    (tensor.stored_bytes() / tensor.rows().max(1) as u64) as usize
}
