//! Matrices as GPTQ tools (AutoGPTQ, GPTQModel) pack them. For a layer `X` with `in` inputs and `out` outputs:
//!
//! | Tensor | Shape | Holds |
//! |---|---|---|
//! | `X.qweight` | in * bits / 32, out | codes; those of one output run down its column, the first in the lowest bits |
//! | `X.qzeros` | groups, out * bits / 32 | the code that stands for 0, along the row |
//! | `X.scales` | groups, out | floats |
//! | `X.g_idx` | in | the group of each input; where it is missing, groups are runs of inputs |
//!
//! A code of 3 bits may begin in one word and end in the next. The first version of the format stores zeros less 1.

use std::sync::Arc;

use super::group_size::GroupSize;
use super::matrix::PackedMatrix;
use super::packed_part::PackedPart;
use super::rows::{Groups, Meaning, PackedRows, code_bytes, unpack_all};
use crate::error::{Result, RuntimeError};
use crate::source::mapping::TensorStore;
use crate::source::transpose::transpose;
use crate::tensor::ForeignType;
use crate::tensor::{StoredType, Tensor};

/// What the configuration says of all matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Gptq {
    /// Bits of a code and inputs of a group; `None` where some layers have others, so that shapes must tell.
    pub uniform: Option<(u32, GroupSize)>,
    /// Whether groups are no runs of inputs.
    pub desc_act: bool,
    /// Whether 0 is the middle code.
    pub symmetric: bool,
    /// Whether zeros are stored less 1.
    pub zeros_less_one: bool,
}

/// Widths of codes.
pub(super) const BITS: [u32; 4] = [2, 3, 4, 8];

#[derive(Debug)]
struct Matrix {
    names: Names,
    /// Outputs, inputs.
    shape: [usize; 2],
    bits: u32,
    run: usize,
    groups: usize,
    listed: bool,
    format: Gptq,
}

#[derive(Debug)]
struct Names {
    qweight: String,
    qzeros: String,
    scales: String,
    g_idx: String,
}

impl Gptq {
    /// The matrix whose codes are in the tensor `qweight`, of the layer `stem`.
    pub fn matrix(self, stem: &str, store: &dyn TensorStore) -> Result<Box<dyn PackedMatrix>> {
        let name = |end: &str| format!("{stem}.{end}");
        let names = Names {
            qweight: name("qweight"),
            qzeros: name("qzeros"),
            scales: name("scales"),
            g_idx: name("g_idx"),
        };
        let qweight = PackedPart::new(store, &names.qweight, &names.qweight)?;
        let qzeros = PackedPart::new(store, &names.qzeros, &names.qweight)?;
        let scales = PackedPart::new(store, &names.scales, &names.qweight)?;
        qweight.need_words()?;
        qzeros.need_words()?;
        scales.need_floats()?;
        let [word_rows, outputs] = qweight.matrix_shape()?;
        let [groups, zero_words] = qzeros.matrix_shape()?;
        let bits =
            BITS.into_iter().find(|&bits| words(outputs, bits) == Some(zero_words)).ok_or_else(|| {
                let expected = format!("codes of {BITS:?} bits for {outputs} outputs");
                qzeros.wrong(expected, format!("shape {:?}", qzeros.shape()))
            })?;
        if let Some((expected, _)) = self.uniform.filter(|(expected, _)| *expected != bits) {
            let columns = words(outputs, expected);
            let columns =
                columns.map_or_else(|| "a whole number of".to_owned(), |columns| columns.to_string());
            let expected = format!("{columns} columns ({outputs} outputs of {expected} bits)");
            return Err(qzeros.wrong(expected, zero_words));
        }
        let inputs = inputs(word_rows, bits).ok_or_else(|| {
            let found = format!("shape {:?}", qweight.shape());
            qweight.wrong(format!("rows for a whole number of codes of {bits} bits"), found)
        })?;
        scales.need_shape(&[groups, outputs], "groups of the zeros, outputs of the codes")?;
        let run = match self.uniform {
            Some((_, size)) => size.of(inputs),
            // Where the configuration does not tell, groups of one size must.
            None => inputs.div_ceil(groups),
        };
        if inputs.div_ceil(run) != groups {
            let expected = format!("{} groups ({inputs} inputs in groups of {run})", inputs.div_ceil(run));
            return Err(scales.wrong(expected, groups));
        }
        let listed = store.describe(&names.g_idx).is_some();
        if listed || self.desc_act {
            let g_idx = PackedPart::new(store, &names.g_idx, &names.qweight)?;
            g_idx.need_words()?;
            g_idx.need_shape(&[inputs], "inputs of the codes")?;
        }
        let shape = [outputs, inputs];
        Ok(Box::new(Matrix { names, shape, bits, run, groups, listed, format: self }))
    }
}

/// Words of `count` codes that fill whole words.
fn words(count: usize, bits: u32) -> Option<usize> {
    code_bytes(bits, count)?
        .checked_div(4)
        .filter(|words| words.checked_mul(32) == count.checked_mul(bits as usize))
}

/// Codes of `bits` bits that fill so many words.
fn inputs(words: usize, bits: u32) -> Option<usize> {
    let all = words.checked_mul(32)?;
    all.is_multiple_of(bits as usize).then_some(all / bits as usize)
}

impl Matrix {
    fn part<'a>(&'a self, store: &'a dyn TensorStore, name: &'a str) -> Result<PackedPart<'a>> {
        PackedPart::new(store, name, &self.names.qweight)
    }

    /// Which group each input is in.
    fn groups(&self, store: &dyn TensorStore) -> Result<Groups> {
        if !self.listed {
            return Ok(Groups::Runs(self.run));
        }
        let g_idx = self.part(store, &self.names.g_idx)?;
        let groups = g_idx.numbers()?;
        g_idx.need_below(&groups, self.groups)?;
        let in_runs = groups.iter().enumerate().all(|(input, &group)| input / self.run == group as usize);
        // Tools leave zeros where nothing was reordered; taken at its word that would be one group of many.
        let unset = groups.iter().all(|&group| group == 0) && !self.format.desc_act;
        Ok(if in_runs || unset { Groups::Runs(self.run) } else { Groups::Listed(groups) })
    }

    /// The code that stands for 0, for each output all its groups.
    fn zeros(&self, store: &dyn TensorStore) -> Result<Vec<u8>> {
        let qzeros = self.part(store, &self.names.qzeros)?.words()?;
        let mut zeros = unpack_all(self.bits, qzeros.as_slice());
        let middle = 1 << (self.bits - 1);
        // Some symmetric checkpoints are of the second version and do not say so (vllm-project/vllm#38966): less 1,
        // the middle code cannot occur in them.
        let is_actual = self.format.symmetric && zeros.iter().all(|&zero| zero == middle);
        if self.format.zeros_less_one && !is_actual {
            zeros = unpack_all(self.bits, &plus_one(self.bits, qzeros.as_slice()));
        }
        Ok(transposed(&zeros, self.shape[0]))
    }
}

/// Every code of the packed ones plus 1.
///
/// Codes that have no lower neighbour, 0, were stored as the highest. Where codes fill words, GPTQModel borrows from the
/// next code as it subtracts, and carries as it adds again: so that the sum is what it was, words are added here too.
fn plus_one(bits: u32, packed: &[u8]) -> Vec<u8> {
    if bits == 3 {
        let mask = 7;
        let mut out = vec![0; packed.len()];
        for (i, code) in unpack_all(bits, packed).into_iter().enumerate() {
            let code = u16::from((code + 1) & mask) << (i * 3 % 8);
            out[i * 3 / 8] |= code as u8;
            if let Some(next) = out.get_mut(i * 3 / 8 + 1) {
                *next |= (code >> 8) as u8;
            }
        }
        return out;
    }
    let ones = u32::MAX / ((1 << bits) - 1);
    let (words, _) = packed.as_chunks();
    words.iter().flat_map(|word| u32::from_le_bytes(*word).wrapping_add(ones).to_le_bytes()).collect()
}

/// Bytes in rows of `cols`, with rows and columns exchanged.
pub(super) fn transposed(bytes: &[u8], cols: usize) -> Vec<u8> {
    let rows = bytes.len().checked_div(cols).unwrap_or(0);
    let mut out = vec![0; rows * cols];
    for (row, bytes) in bytes.chunks_exact(cols.max(1)).enumerate() {
        for (col, &byte) in bytes.iter().enumerate() {
            out[col * rows + row] = byte;
        }
    }
    out
}

impl PackedMatrix for Matrix {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn stored_type(&self) -> StoredType {
        let name = match self.bits {
            2 => "GPTQ 2-bit",
            3 => "GPTQ 3-bit",
            4 => "GPTQ 4-bit",
            _ => "GPTQ 8-bit",
        };
        StoredType::Foreign(ForeignType { name, quantized: true })
    }

    fn parts(&self) -> Vec<&str> {
        let Names { qweight, qzeros, scales, g_idx } = &self.names;
        let mut parts = vec![qweight.as_str(), qzeros, scales];
        parts.extend(self.listed.then_some(g_idx.as_str()));
        parts
    }

    fn check(&self, store: &dyn TensorStore) -> Result<()> {
        self.groups(store).map(drop)
    }

    fn load(&self, store: &dyn TensorStore) -> Result<Tensor> {
        let [outputs, inputs] = self.shape;
        let groups = self.groups(store)?;
        let qweight = self.part(store, &self.names.qweight)?;
        // A column of words is a row of codes: exchanged, rows can be decoded from the start to the end.
        let codes = transpose(qweight.words()?.as_slice(), size_of::<u32>(), outputs, 0..outputs);
        let scales = self.part(store, &self.names.scales)?.floats_transposed()?;
        let meaning = Meaning::Zeros(self.zeros(store)?);
        let stored = self.stored_type();
        let rows = PackedRows::new(stored, self.bits, inputs, codes.into(), scales, meaning, groups);
        match rows {
            Some(rows) => Ok(Tensor::foreign(outputs, inputs, Arc::new(rows))),
            None => Err(contradiction(qweight)),
        }
    }
}

/// Parts that were found to fit, and do not.
pub(super) fn contradiction(codes: PackedPart<'_>) -> RuntimeError {
    codes.wrong("scales and zeros of the sizes that follow from the codes", "others")
}
