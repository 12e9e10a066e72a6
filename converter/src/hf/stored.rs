//! A tensor as the files of a directory have it: one of floats, or the parts of a matrix of groups.

use std::collections::HashMap;

use qsf_format::TensorId;
use qsf_runtime::grouped::{GroupType, GroupZero};
use qsf_runtime::source::SavedTensor;

use crate::dtype::HfOut;

/// A tensor of a directory.
#[derive(Debug, Clone)]
pub(super) struct DirTensor {
    pub saved: SavedTensor,
    /// The type of its groups; without, it is floats.
    pub groups: Option<GroupType>,
}

/// A tensor in a file.
#[derive(Debug, Clone)]
pub(super) struct FilePart {
    pub name: String,
    /// The name that safetensors has for its type.
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub bytes: u64,
}

impl DirTensor {
    /// The tensors of the file, in their order. Those of groups are as MLX has them, or as compressed-tensors in its format
    /// "pack-quantized".
    pub fn parts(&self, out: HfOut) -> Vec<FilePart> {
        let SavedTensor { name, shape, .. } = &self.saved;
        let float = out.safetensors_name();
        let Some(ty) = self.groups else {
            let bytes = (self.saved.values() as u64).saturating_mul(out.width());
            return vec![FilePart { name: name.clone(), dtype: float, shape: shape.clone(), bytes }];
        };
        let stem = name.strip_suffix("weight").unwrap_or(name);
        let [outputs, inputs] = self.dimensions();
        let part = |end: &str, dtype, shape: Vec<usize>, width: u64| {
            let bytes = shape.iter().fold(width, |all, n| all.saturating_mul(*n as u64));
            FilePart { name: format!("{stem}{end}"), dtype, shape, bytes }
        };
        let groups = ty.groups(inputs);
        if ty.zero == GroupZero::Bias {
            // Of experts there is a dimension more in front.
            let shape_of = |last: usize| {
                let outer = &shape[..shape.len().saturating_sub(1)];
                [outer, &[last]].concat()
            };
            return vec![
                part("weight", "U32", shape_of(words(ty, inputs)), 4),
                part("scales", float, shape_of(groups), out.width()),
                part("biases", float, shape_of(groups), out.width()),
            ];
        }
        let mut parts = vec![
            part("weight_packed", "I32", vec![outputs, words(ty, inputs)], 4),
            part("weight_scale", float, vec![outputs, groups], out.width()),
        ];
        if ty.zero == GroupZero::Code {
            parts.push(part("weight_zero_point", "I32", vec![words(ty, outputs), groups], 4));
        }
        parts.push(part("weight_shape", "I64", vec![2], 8));
        parts
    }

    /// Outputs and inputs.
    fn dimensions(&self) -> [usize; 2] {
        let inputs = self.saved.shape.last().copied().unwrap_or(0);
        [self.saved.values() / inputs.max(1), inputs]
    }

    /// The bytes of all parts, one after the other; `rows` has the tensors of the model that it is of, as rows of groups.
    pub fn packed(&self, ty: GroupType, rows: &HashMap<TensorId, Vec<u8>>) -> Vec<u8> {
        let [outputs, inputs] = self.dimensions();
        let row_bytes = ty.row_bytes(inputs).unwrap_or(0);
        // Rows that mean nothing have scales of 0.
        let empty = vec![0; row_bytes];
        let row_of = |origin: Option<(TensorId, usize)>| -> &[u8] {
            let found =
                origin.and_then(|(id, row)| rows.get(&id)?.get(row * row_bytes..(row + 1) * row_bytes));
            found.unwrap_or(&empty)
        };
        let origins = self.saved.row_origins().unwrap_or_default();
        let stored: Vec<&[u8]> = origins.into_iter().map(row_of).collect();
        let part =
            |range: std::ops::Range<usize>| stored.iter().flat_map(move |row| &row[range.clone()]).copied();
        let mut bytes: Vec<u8> = part(ty.codes(inputs)).chain(part(ty.scales(inputs))).collect();
        match ty.zero {
            GroupZero::Middle => {}
            GroupZero::Code => {
                let zeros: Vec<u8> = part(ty.offsets(inputs)).collect();
                bytes.extend(down_columns(ty, &zeros, outputs, ty.groups(inputs)));
            }
            GroupZero::Bias => {
                bytes.extend(part(ty.offsets(inputs)));
                return bytes;
            }
        }
        bytes.extend([outputs, inputs].into_iter().flat_map(|n| (n as i64).to_le_bytes()));
        bytes
    }
}

/// Words that so many codes take.
fn words(ty: GroupType, codes: usize) -> usize {
    (codes * ty.bits as usize).div_ceil(32)
}

/// Codes of a matrix of so many rows and columns, packed down the columns.
fn down_columns(ty: GroupType, codes: &[u8], rows: usize, cols: usize) -> Vec<u8> {
    let count = words(ty, rows);
    let mut out = vec![0u8; count * cols * 4];
    for col in 0..cols {
        let mut packed = vec![0u8; count * 4];
        for row in 0..rows {
            // 4 or 8 bits: a code is in one byte.
            let at = row * ty.bits as usize;
            packed[at / 8] |= codes[row * cols + col] << (at % 8);
        }
        for (word, bytes) in packed.chunks_exact(4).enumerate() {
            out[(word * cols + col) * 4..][..4].copy_from_slice(bytes);
        }
    }
    out
}
