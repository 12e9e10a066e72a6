//! A tensor in memory, in the type it is stored in.

use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;
use qsf_format::{BlockSize, QuantType};

use super::stored::{ForeignRows, StoredType};
use crate::cpu::{Isa, decode_row};

/// A matrix (or a vector: one row) in its stored type. Cheap to clone: the bytes are shared.
#[derive(Debug, Clone)]
pub struct Tensor {
    rows: usize,
    cols: usize,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    Native(NativeRows),
    /// The rows from `first` on.
    Foreign {
        rows: Arc<dyn ForeignRows>,
        first: usize,
    },
}

/// Rows in a type of the file format, one after the other: what kernels multiply with.
#[derive(Debug, Clone)]
pub struct NativeRows {
    quant: QuantType,
    block: BlockSize,
    row_bytes: usize,
    bytes: TensorBytes,
}

impl NativeRows {
    /// Type of the values.
    pub fn quant(&self) -> QuantType {
        self.quant
    }

    /// Values per block, where the type has blocks.
    pub fn block(&self) -> BlockSize {
        self.block
    }

    /// Bytes from one row to the next.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// All bytes, row after row.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// The bytes of the rows `rows`.
    ///
    /// # Panics
    /// When the range exceeds the rows.
    pub fn rows(&self, rows: Range<usize>) -> &[u8] {
        &self.bytes()[rows.start * self.row_bytes..rows.end * self.row_bytes]
    }
}

/// The bytes of a tensor: a range of a mapped file, or of memory of our own.
#[derive(Debug, Clone)]
pub enum TensorBytes {
    /// In place in a file.
    Mapped(Arc<Mmap>, Range<usize>),
    /// Decompressed, transposed or converted.
    Owned(Arc<Vec<u8>>, Range<usize>),
}

impl TensorBytes {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            TensorBytes::Mapped(map, range) => &map[range.clone()],
            TensorBytes::Owned(vec, range) => &vec[range.clone()],
        }
    }

    /// A part of the bytes, shared.
    ///
    /// # Panics
    /// When the part exceeds the bytes.
    pub fn slice(&self, part: Range<usize>) -> TensorBytes {
        assert!(part.start <= part.end && part.end <= self.as_slice().len(), "bytes {part:?} of fewer");
        let shift = |all: &Range<usize>| all.start + part.start..all.start + part.end;
        match self {
            TensorBytes::Mapped(map, all) => TensorBytes::Mapped(map.clone(), shift(all)),
            TensorBytes::Owned(vec, all) => TensorBytes::Owned(vec.clone(), shift(all)),
        }
    }
}

impl From<Vec<u8>> for TensorBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        TensorBytes::Owned(Arc::new(bytes), range)
    }
}

impl Tensor {
    /// A tensor over `bytes`, or the byte count that `rows` x `cols` of this type would take (`None`: more than memory
    /// can address) when `bytes` has another length.
    ///
    /// # Errors
    /// The expected length.
    pub fn new(
        rows: usize,
        cols: usize,
        quant: QuantType,
        block: BlockSize,
        bytes: TensorBytes,
    ) -> Result<Tensor, Option<u64>> {
        let expected = quant.tensor_bytes(block, rows as u64, cols as u64);
        if expected != Some(bytes.as_slice().len() as u64) {
            return Err(expected);
        }
        // Fits: the rows together are a slice in memory, and with no rows nothing is ever read.
        let row_bytes = bytes.as_slice().len().checked_div(rows).unwrap_or(0);
        Ok(Tensor { rows, cols, values: Values::Native(NativeRows { quant, block, row_bytes, bytes }) })
    }

    /// A tensor whose rows are decoded by `values`, which has at least `rows` of them, `cols` wide.
    pub fn foreign(rows: usize, cols: usize, values: Arc<dyn ForeignRows>) -> Tensor {
        Tensor { rows, cols, values: Values::Foreign { rows: values, first: 0 } }
    }

    /// A tensor of 32-bit floats in memory of its own.
    ///
    /// # Panics
    /// When `values` is not `rows` x `cols`.
    pub fn from_f32(rows: usize, cols: usize, values: &[f32]) -> Tensor {
        assert_eq!(Some(values.len()), rows.checked_mul(cols), "{rows} x {cols} values");
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (quant, block) = (QuantType::F32, BlockSize::default());
        let native = NativeRows { quant, block, row_bytes: cols * size_of::<f32>(), bytes: bytes.into() };
        Tensor { rows, cols, values: Values::Native(native) }
    }

    /// Rows; 1 for vectors.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Type of the stored values.
    pub fn stored_type(&self) -> StoredType {
        match &self.values {
            Values::Native(native) => StoredType::Native(native.quant),
            Values::Foreign { rows, .. } => rows.stored_type(),
        }
    }

    /// The rows as kernels take them, where the type is one of the file format and the rows follow one another.
    pub fn native(&self) -> Option<&NativeRows> {
        match &self.values {
            Values::Native(native) => Some(native),
            Values::Foreign { .. } => None,
        }
    }

    /// Whether kernels multiply this with 8-bit activations.
    pub fn has_blocks(&self) -> bool {
        self.native().is_some_and(|native| !native.quant.is_float())
    }

    /// Bytes of all rows as stored.
    pub fn stored_bytes(&self) -> u64 {
        let row_bytes = match &self.values {
            Values::Native(native) => native.row_bytes,
            Values::Foreign { rows, .. } => rows.row_bytes(),
        };
        row_bytes as u64 * self.rows as u64
    }

    /// One row as floats: the same bits for every `isa`.
    ///
    /// # Panics
    /// When `out` is not as long as a row or `row` is out of range.
    pub fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        assert!(
            row < self.rows && out.len() == self.cols,
            "row {row} of {}, {} values",
            self.rows,
            out.len()
        );
        match &self.values {
            Values::Native(native) => {
                decode_row(isa, native.quant, native.block, native.rows(row..row + 1), out);
            }
            Values::Foreign { rows, first } => rows.decode_row(isa, first + row, out),
        }
    }

    /// All values as floats: for vectors such as norms and biases.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.rows * self.cols];
        if self.cols > 0 {
            for (row, out) in out.chunks_mut(self.cols).enumerate() {
                self.decode_row(Isa::best(), row, out);
            }
        }
        out
    }

    /// The rows `range` as a tensor that shares these bytes.
    ///
    /// # Panics
    /// When the range exceeds the rows.
    pub fn slice_rows(&self, range: Range<usize>) -> Tensor {
        assert!(range.end <= self.rows && range.start <= range.end, "rows {range:?} of {}", self.rows);
        let values = match &self.values {
            Values::Native(native) => {
                let part = range.start * native.row_bytes..range.end * native.row_bytes;
                Values::Native(NativeRows { bytes: native.bytes.slice(part), ..native.clone() })
            }
            Values::Foreign { rows, first } => {
                let first = first + range.start;
                if let Some(slice) = rows.slice(first, range.len()) {
                    return slice;
                }
                Values::Foreign { rows: rows.clone(), first }
            }
        };
        Tensor { rows: range.len(), cols: self.cols, values }
    }
}
