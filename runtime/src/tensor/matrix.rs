//! A matrix, or a vector as one row, in the type it is stored in.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use qsf_format::{BlockSize, CodeTables, Layout, Outliers, QuantType, RowParts};

use super::bytes::TensorBytes;
use super::native_rows::NativeRows;
use super::stored_type::StoredType;
use qsf_cpu::Isa;

/// A matrix (or a vector: one row) in its stored type. Cheap to clone: the bytes are shared.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) values: Values,
    pub(super) outliers: Option<RowOutliers>,
}

/// Weights that are stored apart from the blocks of their matrix, and added to them.
#[derive(Debug, Clone)]
pub(super) struct RowOutliers {
    pub(super) all: Arc<Outliers>,
    /// The row there that is row 0 here.
    pub(super) first: usize,
}

#[derive(Debug, Clone)]
pub(super) enum Values {
    Native(NativeRows),
    /// The rows from `first` on.
    Foreign {
        rows: Arc<dyn ForeignRows>,
        first: usize,
    },
}

/// Rows of a matrix that are decoded one at a time: how everything is read that is no type of the file format, so that
/// no source is ever expanded as a whole. Implementations have checked, when they were made, that every row is there.
pub trait ForeignRows: Send + Sync + Debug {
    /// Type of the stored values.
    fn stored_type(&self) -> StoredType;

    /// Stored bytes of one row, scales included.
    fn row_bytes(&self) -> usize;

    /// Row `row` as floats: the same bits for every `isa`.
    ///
    /// # Panics
    /// When `row` is out of range or `out` is not as long as a row.
    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]);

    /// The rows from `first` on as a tensor that needs no such decoding, where they happen to be one.
    fn slice(&self, first: usize, rows: usize) -> Option<Tensor> {
        let _ = (first, rows);
        None
    }

    /// The parts of a matrix whose rows are in several types.
    fn split(&self) -> Option<&SplitRows> {
        None
    }
}

/// The parts of a matrix, and which rows are in which.
#[derive(Debug)]
pub struct SplitRows {
    pub(super) parts: Vec<Tensor>,
    pub(super) rows: RowParts,
}

impl SplitRows {
    /// These parts.
    ///
    /// # Panics
    /// When they are other than the rows say, or of different widths: whoever reads a file checks that.
    pub fn new(parts: Vec<Tensor>, rows: RowParts) -> SplitRows {
        assert_eq!(parts.len(), rows.parts(), "parts");
        for (i, part) in parts.iter().enumerate() {
            assert_eq!((part.rows(), part.cols()), (rows.rows_of(i), parts[0].cols()), "part {i}");
        }
        SplitRows { parts, rows }
    }

    /// The parts, the first of which gives the matrix its type in reports.
    pub fn parts(&self) -> &[Tensor] {
        &self.parts
    }

    /// Which rows are in which part.
    pub fn rows(&self) -> &RowParts {
        &self.rows
    }
}

impl Tensor {
    /// A tensor over `bytes`, row after row, or the byte count that `rows` x `cols` of this type would take (`None`: more
    /// than memory can address) when `bytes` has another length.
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
        Tensor::with_layout(rows, cols, quant, block, Layout::Rows, bytes)
    }

    /// A tensor over `bytes` in any layout that the type can have, or the byte count that they should have.
    ///
    /// # Errors
    /// The expected length.
    ///
    /// # Panics
    /// When a float type is said to be in panels: no file that was opened has such a tensor.
    pub fn with_layout(
        rows: usize,
        cols: usize,
        quant: QuantType,
        block: BlockSize,
        layout: Layout,
        bytes: TensorBytes,
    ) -> Result<Tensor, Option<u64>> {
        assert!(layout.suits(quant), "{quant} in {layout}");
        let expected = quant.tensor_bytes(block, rows as u64, cols as u64);
        if expected != Some(bytes.len() as u64) {
            return Err(expected);
        }
        // Fits: the rows together are a slice in memory, and with no rows nothing is ever read.
        let row_bytes = bytes.len().checked_div(rows).unwrap_or(0);
        let panel_rows = layout.panel_rows(rows);
        let block = quant.block_size(block);
        let native = NativeRows { quant, block, layout, panel_rows, row_bytes, bytes, tables: None };
        Ok(Tensor { rows, cols, values: Values::Native(native), outliers: None })
    }

    /// With the tables of the file that it is from, which say what codes of a learned type stand for.
    #[must_use]
    pub fn with_tables(mut self, tables: &Arc<CodeTables>) -> Tensor {
        if let Values::Native(native) = &mut self.values {
            native.tables = native.quant.is_learned().then(|| tables.clone());
        }
        self
    }

    /// With weights that are stored apart from its blocks: each is added to what the blocks decode to. Row 0 has
    /// those of row `first`.
    ///
    /// # Panics
    /// When they are of fewer rows. Their columns must be inside the tensor: whoever reads a file checks that.
    #[must_use]
    pub fn with_outliers(mut self, outliers: Arc<Outliers>, first: usize) -> Tensor {
        assert!(first + self.rows <= outliers.rows(), "rows of outliers");
        self.outliers = (!outliers.is_empty()).then_some(RowOutliers { all: outliers, first });
        self
    }

    /// Whether weights are stored apart from the blocks.
    pub fn has_outliers(&self) -> bool {
        self.outliers.is_some()
    }

    /// Columns and values of what is stored apart from the blocks of a row.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn outliers(&self, row: usize) -> (&[u16], &[f32]) {
        self.outliers.as_ref().map_or((&[], &[]), |outliers| outliers.all.row(outliers.first + row))
    }

    /// A tensor whose rows are decoded by `values`, which has at least `rows` of them, `cols` wide.
    pub fn foreign(rows: usize, cols: usize, values: Arc<dyn ForeignRows>) -> Tensor {
        Tensor { rows, cols, values: Values::Foreign { rows: values, first: 0 }, outliers: None }
    }

    /// A tensor of 32-bit floats in memory of its own.
    ///
    /// # Panics
    /// When `values` is not `rows` x `cols`.
    pub fn from_f32(rows: usize, cols: usize, values: &[f32]) -> Tensor {
        assert_eq!(Some(values.len()), rows.checked_mul(cols), "{rows} x {cols} values");
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (quant, block) = (QuantType::F32, BlockSize::default());
        let row_bytes = cols * size_of::<f32>();
        let (layout, bytes) = (Layout::Rows, bytes.into());
        let native = NativeRows { quant, block, layout, panel_rows: 0, row_bytes, bytes, tables: None };
        Tensor { rows, cols, values: Values::Native(native), outliers: None }
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

    /// The rows as kernels take them, where type and order are those of the file format. What is stored apart from the
    /// blocks is not in them.
    pub fn native(&self) -> Option<&NativeRows> {
        match &self.values {
            Values::Native(native) => Some(native),
            Values::Foreign { .. } => None,
        }
    }

    /// Whether kernels multiply this with 8-bit activations.
    pub fn has_blocks(&self) -> bool {
        match self.split() {
            Some(split) => split.parts().iter().any(Tensor::has_blocks),
            None => self.native().is_some_and(|native| !native.quant.is_float()),
        }
    }

    /// The parts of this matrix, where it is one in several types, and all of its rows.
    pub fn split(&self) -> Option<&SplitRows> {
        match &self.values {
            Values::Foreign { rows, .. } => rows.split().filter(|split| split.rows().rows() == self.rows),
            Values::Native(_) => None,
        }
    }

    /// Bytes of all rows as stored, with what is stored apart from the blocks.
    pub fn stored_bytes(&self) -> u64 {
        if let Some(split) = self.split() {
            return split.parts().iter().map(Tensor::stored_bytes).sum();
        }
        let row_bytes = match &self.values {
            Values::Native(native) => native.row_bytes,
            Values::Foreign { rows, .. } => rows.row_bytes(),
        };
        let apart = self.outliers.as_ref().map_or(0, |outliers| {
            let count: usize = (0..self.rows).map(|row| outliers.all.row(outliers.first + row).0.len()).sum();
            Outliers::record_bytes(self.rows as u64, count as u64)
        });
        row_bytes as u64 * self.rows as u64 + apart
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
            Values::Native(native) => native.decode_row(isa, row, out),
            Values::Foreign { rows, first } => rows.decode_row(isa, first + row, out),
        }
        let (cols, values) = self.outliers(row);
        for (col, value) in cols.iter().zip(values) {
            out[usize::from(*col)] += value;
        }
    }

    /// All values as floats: for vectors such as norms and biases.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.rows * self.cols];
        if self.cols > 0 {
            // Looking for instruction sets takes longer than a short row, above all in virtual machines.
            let isa = Isa::best();
            for (row, out) in out.chunks_mut(self.cols).enumerate() {
                self.decode_row(isa, row, out);
            }
        }
        out
    }

    /// The rows `range` as a tensor that shares these bytes.
    ///
    /// # Panics
    /// When the range exceeds the rows, or cuts a panel.
    pub fn slice_rows(&self, range: Range<usize>) -> Tensor {
        assert!(range.end <= self.rows && range.start <= range.end, "rows {range:?} of {}", self.rows);
        let values = match &self.values {
            Values::Native(native) => {
                let bytes = native.bytes.slice(native.range(range.clone()));
                let panel_rows = native.layout.panel_rows(range.len());
                Values::Native(NativeRows { bytes, panel_rows, ..native.clone() })
            }
            Values::Foreign { rows, first } => {
                let first = first + range.start;
                if let Some(slice) = rows.slice(first, range.len()) {
                    return slice;
                }
                Values::Foreign { rows: rows.clone(), first }
            }
        };
        let outliers = self.outliers.as_ref();
        let outliers = outliers.map(|o| RowOutliers { all: o.all.clone(), first: o.first + range.start });
        Tensor { rows: range.len(), cols: self.cols, values, outliers }
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::panels::interleave;

    use super::*;

    const COLS: usize = 70;

    /// 53 rows: three panels and five plain rows.
    fn both_layouts(quant: QuantType) -> (Tensor, Tensor) {
        let block = BlockSize::B64;
        let row_bytes = quant.row_bytes(block, COLS as u64).unwrap() as usize;
        let plain: Vec<u8> = (0..53 * row_bytes).map(|i| ((i * 167 + i / 7) % 120) as u8).collect();
        let panels = interleave(quant, block, COLS, &plain);
        let rows = Tensor::new(53, COLS, quant, block, plain.into()).unwrap();
        (rows, Tensor::with_layout(53, COLS, quant, block, Layout::Panels16, panels.into()).unwrap())
    }

    #[test]
    fn every_row_and_every_slice_of_a_tensor_in_panels_has_the_values_of_its_rows() {
        for quant in [QuantType::Q3, QuantType::Q4, QuantType::Ternary] {
            let (rows, panels) = both_layouts(quant);
            assert_eq!(panels.to_f32(), rows.to_f32(), "{quant}");
            for range in [0..16, 16..48, 32..53, 48..53, 0..50, 49..52, 16..16] {
                let (expected, found) = (rows.slice_rows(range.clone()), panels.slice_rows(range.clone()));
                assert_eq!(found.to_f32(), expected.to_f32(), "{quant} {range:?}");
                assert_eq!(found.stored_bytes(), expected.stored_bytes());
                let inner = found.native().unwrap();
                assert_eq!(inner.bytes(), panels.native().unwrap().rows(range));
            }
        }
        let (_, panels) = both_layouts(QuantType::Q4);
        assert_eq!(panels.native().unwrap().panel_rows(), 48);
        assert_eq!(panels.slice_rows(16..50).native().unwrap().panel_rows(), 32);
    }

    #[test]
    #[should_panic(expected = "rows 16..40 cut a panel")]
    fn a_panel_cannot_be_cut() {
        both_layouts(QuantType::Q4).1.slice_rows(16..40);
    }
}
