//! Rows as floats.

use std::sync::Arc;

use qsf_cpu::Isa;
use qsf_format::{BUILT_IN, BlockSize};

use super::codes::unpack_codes;
use super::group_type::{GroupType, GroupZero};
use crate::tensor::{ForeignRows, ForeignType, StoredType, Tensor, TensorBytes};

impl GroupType {
    /// The values of a row. They are computed in 32-bit floats: programs that compute in the type of the scales have the
    /// nearest of that type.
    ///
    /// # Panics
    /// When `bytes` are not those of a row of as many values as `out` has.
    pub fn decode_row(self, isa: Isa, bytes: &[u8], out: &mut [f32]) {
        let cols = out.len();
        assert_eq!(Some(bytes.len()), self.row_bytes(cols), "bytes of {cols} values as {self}");
        unpack_codes(self.bits, &bytes[self.codes(cols)], out);
        let floats = |bytes: &[u8]| {
            let mut values = vec![0.0; self.groups(cols)];
            qsf_cpu::decode_row(isa, self.scale, BlockSize::B64, &BUILT_IN, bytes, &mut values);
            values
        };
        let scales = floats(&bytes[self.scales(cols)]);
        let offsets = &bytes[self.offsets(cols)];
        let biases = if self.zero == GroupZero::Bias { floats(offsets) } else { Vec::new() };
        for (g, (values, scale)) in out.chunks_exact_mut(self.group).zip(scales).enumerate() {
            match self.zero {
                GroupZero::Middle => {
                    let middle = (1u32 << (self.bits - 1)) as f32;
                    values.iter_mut().for_each(|code| *code = scale * (*code - middle));
                }
                GroupZero::Code => {
                    let zero = f32::from(offsets[g]);
                    values.iter_mut().for_each(|code| *code = scale * (*code - zero));
                }
                GroupZero::Bias => values.iter_mut().for_each(|code| *code = scale * *code + biases[g]),
            }
        }
    }
}

/// The rows of a tensor.
#[derive(Debug)]
struct GroupRows {
    ty: GroupType,
    row_bytes: usize,
    bytes: TensorBytes,
}

impl Tensor {
    /// A tensor of so many rows in a type of groups; `None` when these are not its bytes.
    pub fn of_groups(ty: GroupType, rows: usize, cols: usize, bytes: TensorBytes) -> Option<Tensor> {
        let row_bytes = ty.row_bytes(cols)?;
        let whole = row_bytes.checked_mul(rows) == Some(bytes.as_slice().len());
        whole.then(|| Tensor::foreign(rows, cols, Arc::new(GroupRows { ty, row_bytes, bytes })))
    }
}

impl ForeignRows for GroupRows {
    fn stored_type(&self) -> StoredType {
        StoredType::Foreign(ForeignType { name: self.ty.name(), quantized: true })
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        self.ty.decode_row(isa, &self.bytes.as_slice()[row * self.row_bytes..][..self.row_bytes], out);
    }
}
