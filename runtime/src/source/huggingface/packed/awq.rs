//! Matrices as AutoAWQ packs them in its version "gemm". For a layer `X` with `in` inputs and `out` outputs:
//!
//! | Tensor | Shape | Holds |
//! |---|---|---|
//! | `X.qweight` | in, out / 8 | codes of 4 bits, eight outputs of one input in a word |
//! | `X.qzeros` | in / group, out / 8 | the code that stands for 0, in the same way |
//! | `X.scales` | in / group, out | floats |
//!
//! From the lowest bits on, a word has the outputs 0, 2, 4, 6, 1, 3, 5, 7 of its eight.

use std::sync::Arc;

use super::gptq::{contradiction, transposed};
use super::group_size::GroupSize;
use super::matrix::PackedMatrix;
use super::packed_part::PackedPart;
use super::rows::{Groups, Meaning, PackedRows};
use crate::error::Result;
use crate::source::mapping::TensorStore;
use crate::tensor::ForeignType;
use crate::tensor::{StoredType, Tensor};

/// What the configuration says of all matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Awq {
    /// Inputs of a group.
    pub group_size: GroupSize,
}

const BITS: u32 = 4;

/// Codes in a word.
const PER_WORD: usize = 8;

/// Where in a word each of its eight outputs is: the inverse of the order 0, 2, 4, 6, 1, 3, 5, 7.
const PLACES: [u32; PER_WORD] = [0, 4, 1, 5, 2, 6, 3, 7];

#[derive(Debug)]
struct Matrix {
    qweight: String,
    qzeros: String,
    scales: String,
    /// Outputs, inputs.
    shape: [usize; 2],
    run: usize,
}

impl Awq {
    /// The matrix of the layer `stem`.
    pub fn matrix(self, stem: &str, store: &dyn TensorStore) -> Result<Box<dyn PackedMatrix>> {
        let name = |end: &str| format!("{stem}.{end}");
        let (qweight, qzeros, scales) = (name("qweight"), name("qzeros"), name("scales"));
        let codes = PackedPart::new(store, &qweight, &qweight)?;
        codes.need_words()?;
        let [inputs, columns] = codes.matrix_shape()?;
        let outputs = columns.checked_mul(PER_WORD);
        let outputs = outputs.ok_or_else(|| codes.wrong("fewer columns", columns))?;
        let run = self.group_size.of(inputs);
        if !inputs.is_multiple_of(run) {
            return Err(codes.wrong(format!("a multiple of {run} rows (the group size)"), inputs));
        }
        let groups = inputs / run;
        let why = format!("{inputs} inputs in groups of {run}, {outputs} outputs");
        let zeros = PackedPart::new(store, &qzeros, &qweight)?;
        zeros.need_words()?;
        zeros.need_shape(&[groups, columns], &why)?;
        let factors = PackedPart::new(store, &scales, &qweight)?;
        factors.need_floats()?;
        factors.need_shape(&[groups, outputs], &why)?;
        Ok(Box::new(Matrix { qweight, qzeros, scales, shape: [outputs, inputs], run }))
    }
}

impl PackedMatrix for Matrix {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn stored_type(&self) -> StoredType {
        StoredType::Foreign(ForeignType { name: "AWQ 4-bit", quantized: true })
    }

    fn parts(&self) -> Vec<&str> {
        vec![&self.qweight, &self.qzeros, &self.scales]
    }

    fn load(&self, store: &dyn TensorStore) -> Result<Tensor> {
        let [outputs, inputs] = self.shape;
        let qweight = PackedPart::new(store, &self.qweight, &self.qweight)?;
        let codes = by_output(qweight.words()?.as_slice(), outputs / PER_WORD);
        let qzeros = PackedPart::new(store, &self.qzeros, &self.qweight)?.words()?;
        let zeros = transposed(&in_order(qzeros.as_slice()), outputs);
        let scales = PackedPart::new(store, &self.scales, &self.qweight)?.floats_transposed()?;
        let (meaning, groups) = (Meaning::Zeros(zeros), Groups::Runs(self.run));
        let rows = PackedRows::new(self.stored_type(), BITS, inputs, codes.into(), scales, meaning, groups);
        match rows {
            Some(rows) => Ok(Tensor::foreign(outputs, inputs, Arc::new(rows))),
            None => Err(contradiction(qweight)),
        }
    }
}

/// The eight codes of each word, one to a byte, in the order of outputs.
fn in_order(words: &[u8]) -> Vec<u8> {
    let (words, _) = words.as_chunks();
    words.iter().flat_map(|word| PLACES.map(|place| code(u32::from_le_bytes(*word), place))).collect()
}

fn code(word: u32, place: u32) -> u8 {
    (word >> (BITS * place) & 0xf) as u8
}

/// Inputs of a tile: the words of its rows that lie in one line of the cache are used while it is there.
const TILE: usize = 32;

/// Rows of `columns` words, one row for each input, as rows of packed codes, one for each output.
fn by_output(words: &[u8], columns: usize) -> Vec<u8> {
    let (words, _) = words.as_chunks();
    let inputs = words.len().checked_div(columns).unwrap_or(0);
    let stride = inputs.div_ceil(2);
    let mut out = vec![0; stride * columns * PER_WORD];
    for first in (0..inputs).step_by(TILE) {
        for column in 0..columns {
            for input in first..inputs.min(first + TILE) {
                let word = u32::from_le_bytes(words[input * columns + column]);
                for (output, place) in PLACES.into_iter().enumerate() {
                    let byte = &mut out[(column * PER_WORD + output) * stride + input / 2];
                    *byte |= code(word, place) << (BITS as usize * (input % 2));
                }
            }
        }
    }
    out
}
