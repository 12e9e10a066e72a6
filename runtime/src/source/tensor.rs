//! A tensor in memory, in the type it is stored in.

use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;
use qsf_format::{BlockSize, QuantType, decode_row};

/// A matrix (or a vector: one row) in its stored type. Cheap to clone: the bytes are shared.
#[derive(Debug, Clone)]
pub struct Tensor {
    rows: usize,
    cols: usize,
    quant: QuantType,
    block: BlockSize,
    row_bytes: usize,
    bytes: TensorBytes,
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
        Ok(Tensor { rows, cols, quant, block, row_bytes, bytes })
    }

    /// Rows; 1 for vectors.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Stored type.
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

    /// The bytes of one row.
    pub fn row(&self, row: usize) -> &[u8] {
        &self.bytes()[row * self.row_bytes..][..self.row_bytes]
    }

    /// One row as floats.
    ///
    /// # Panics
    /// When `out` is longer than a row or `row` is out of range.
    pub fn decode_row(&self, row: usize, out: &mut [f32]) {
        decode_row(self.quant, self.block, self.row(row), out);
    }

    /// All values as floats: for vectors such as norms and biases.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.rows * self.cols];
        if self.cols > 0 {
            for (row, out) in out.chunks_mut(self.cols).enumerate() {
                self.decode_row(row, out);
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
        let shift = |all: &Range<usize>| {
            all.start + range.start * self.row_bytes..all.start + range.end * self.row_bytes
        };
        let bytes = match &self.bytes {
            TensorBytes::Mapped(map, all) => TensorBytes::Mapped(map.clone(), shift(all)),
            TensorBytes::Owned(vec, all) => TensorBytes::Owned(vec.clone(), shift(all)),
        };
        Tensor { rows: range.len(), bytes, ..self.clone() }
    }
}
