//! Matrices as compressed-tensors (llm-compressor) packs them in its format "pack-quantized". For a layer `X` with `in`
//! inputs and `out` outputs:
//!
//! | Tensor | Shape | Holds |
//! |---|---|---|
//! | `X.weight_packed` | out, in * bits / 32 | codes, the first in the lowest bits; one may begin in one word and end in the next |
//! | `X.weight_scale` | out, groups | floats |
//! | `X.weight_zero_point` | out * bits / 32, groups | the code that stands for 0, down the column; the middle code where it is missing |
//! | `X.weight_g_idx` | in | the group of each input; where it is missing or has a -1, groups are runs of inputs |
//! | `X.weight_shape` | 2 | out, in, as 64-bit integers |
//!
//! Versions that did not let codes of 3, 5 and 6 bits cross words have other shapes, and are refused.

use std::sync::Arc;

use super::gptq::{contradiction, transposed};
use super::matrix::PackedMatrix;
use super::packed_part::PackedPart;
use super::rows::{Groups, Meaning, PackedRows, WIDTHS, unpack_all};
use crate::error::Result;
use crate::source::mapping::TensorStore;
use crate::source::transpose::transpose;
use crate::tensor::ForeignType;
use crate::tensor::{StoredType, Tensor};

/// What the configuration says of all matrices. Widths and groups follow from shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Compressed {
    /// Whether no matrix has the middle code for 0.
    pub zeros_needed: bool,
}

#[derive(Debug)]
struct Matrix {
    names: Names,
    /// Outputs, inputs.
    shape: [usize; 2],
    bits: u32,
    groups: usize,
    with_zeros: bool,
    with_list: bool,
}

#[derive(Debug)]
struct Names {
    packed: String,
    scale: String,
    zero_point: String,
    g_idx: String,
    shape: String,
}

impl Compressed {
    /// The matrix of the layer `stem`.
    pub fn matrix(self, stem: &str, store: &dyn TensorStore) -> Result<Box<dyn PackedMatrix>> {
        let name = |end: &str| format!("{stem}.weight_{end}");
        let names = Names {
            packed: name("packed"),
            scale: name("scale"),
            zero_point: name("zero_point"),
            g_idx: name("g_idx"),
            shape: name("shape"),
        };
        let packed = PackedPart::new(store, &names.packed, &names.packed)?;
        packed.need_words()?;
        let [outputs, words] = packed.matrix_shape()?;
        let [stated_outputs, inputs] = stated_shape(PackedPart::new(store, &names.shape, &names.packed)?)?;
        let all_bits = words.checked_mul(32);
        let bits = WIDTHS.into_iter().find(|&bits| inputs.checked_mul(bits as usize) == all_bits);
        let (Some(bits), true) = (bits, stated_outputs == outputs && inputs > 0) else {
            let expected =
                format!("{stated_outputs} x {inputs} codes of {WIDTHS:?} bits that fill all words");
            return Err(packed.wrong(expected, format!("shape {:?}", packed.shape())));
        };
        let scale = PackedPart::new(store, &names.scale, &names.packed)?;
        scale.need_floats()?;
        let [rows, groups] = scale.matrix_shape()?;
        if rows != outputs || !inputs.is_multiple_of(groups) {
            let expected = format!("{outputs} rows, columns that divide {inputs} inputs");
            return Err(scale.wrong(expected, format!("shape {:?}", scale.shape())));
        }
        let with_zeros = self.zeros_needed || store.describe(&names.zero_point).is_some();
        if with_zeros {
            let zero_point = PackedPart::new(store, &names.zero_point, &names.packed)?;
            zero_point.need_words()?;
            let zero_words = outputs.checked_mul(bits as usize).map_or(0, |all| all.div_ceil(32));
            zero_point.need_shape(&[zero_words, groups], &format!("{outputs} outputs of {bits} bits"))?;
        }
        let with_list = store.describe(&names.g_idx).is_some();
        if with_list {
            let g_idx = PackedPart::new(store, &names.g_idx, &names.packed)?;
            g_idx.need_words()?;
            g_idx.need_shape(&[inputs], "inputs of the codes")?;
        }
        Ok(Box::new(Matrix { names, shape: [outputs, inputs], bits, groups, with_zeros, with_list }))
    }
}

/// Outputs and inputs.
fn stated_shape(part: PackedPart<'_>) -> Result<[usize; 2]> {
    part.need_shape(&[2], "outputs and inputs")?;
    let bytes = part.integers()?;
    let (numbers, _) = bytes.as_slice().as_chunks();
    let number = |at: usize| usize::try_from(i64::from_le_bytes(*numbers.get(at)?)).ok();
    match (number(0), number(1)) {
        (Some(outputs), Some(inputs)) => Ok([outputs, inputs]),
        _ => Err(part.wrong("two numbers from 0 on", "others")),
    }
}

impl Matrix {
    fn groups(&self, store: &dyn TensorStore) -> Result<Groups> {
        let runs = Groups::Runs(self.shape[1] / self.groups);
        if !self.with_list {
            return Ok(runs);
        }
        let g_idx = PackedPart::new(store, &self.names.g_idx, &self.names.packed)?;
        let listed = g_idx.numbers()?;
        // What the list holds before anything is written to it.
        if listed.contains(&u32::MAX) {
            return Ok(runs);
        }
        g_idx.need_below(&listed, self.groups)?;
        Ok(Groups::Listed(listed))
    }

    /// The code that stands for 0, for each output all its groups.
    fn zeros(&self, store: &dyn TensorStore) -> Result<Vec<u8>> {
        let [outputs, _] = self.shape;
        if !self.with_zeros {
            return Ok(vec![1 << (self.bits - 1); outputs * self.groups]);
        }
        let zero_point = PackedPart::new(store, &self.names.zero_point, &self.names.packed)?.words()?;
        let columns = transpose(zero_point.as_slice(), size_of::<u32>(), self.groups, 0..self.groups);
        let column_bytes = columns.len() / self.groups;
        let mut zeros = Vec::with_capacity(outputs * self.groups);
        for column in columns.chunks_exact(column_bytes.max(1)) {
            // The last word may have room for more codes.
            zeros.extend(unpack_all(self.bits, column).into_iter().take(outputs));
        }
        Ok(transposed(&zeros, outputs))
    }
}

impl PackedMatrix for Matrix {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn stored_type(&self) -> StoredType {
        let name = match self.bits {
            2 => "compressed-tensors 2-bit",
            3 => "compressed-tensors 3-bit",
            4 => "compressed-tensors 4-bit",
            5 => "compressed-tensors 5-bit",
            6 => "compressed-tensors 6-bit",
            _ => "compressed-tensors 8-bit",
        };
        StoredType::Foreign(ForeignType { name, quantized: true })
    }

    fn parts(&self) -> Vec<&str> {
        let Names { packed, scale, zero_point, g_idx, shape } = &self.names;
        let mut parts = vec![packed.as_str(), scale, shape];
        parts.extend(self.with_zeros.then_some(zero_point.as_str()));
        parts.extend(self.with_list.then_some(g_idx.as_str()));
        parts
    }

    fn check(&self, store: &dyn TensorStore) -> Result<()> {
        self.groups(store).map(drop)
    }

    fn load(&self, store: &dyn TensorStore) -> Result<Tensor> {
        let [outputs, inputs] = self.shape;
        let packed = PackedPart::new(store, &self.names.packed, &self.names.packed)?;
        let groups = self.groups(store)?;
        let scales = PackedPart::new(store, &self.names.scale, &self.names.packed)?.floats()?;
        let meaning = Meaning::Zeros(self.zeros(store)?);
        let codes = packed.words()?;
        let rows = PackedRows::new(self.stored_type(), self.bits, inputs, codes, scales, meaning, groups);
        match rows {
            Some(rows) => Ok(Tensor::foreign(outputs, inputs, Arc::new(rows))),
            None => Err(contradiction(packed)),
        }
    }
}
