//! A tensor in memory, in the type it is stored in.

mod gather;

use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;
use qsf_format::panels::PANEL_ROWS;
use qsf_format::{BlockSize, CodeTables, Layout, Outliers, QuantType};

use super::stored::{ForeignRows, StoredType};
use crate::cpu::{Isa, decode_panel_row, decode_row};
use crate::stream::Region;

/// A matrix (or a vector: one row) in its stored type. Cheap to clone: the bytes are shared.
#[derive(Debug, Clone)]
pub struct Tensor {
    rows: usize,
    cols: usize,
    values: Values,
    outliers: Option<RowOutliers>,
}

/// Weights that are stored apart from the blocks of their matrix, and added to them.
#[derive(Debug, Clone)]
struct RowOutliers {
    all: Arc<Outliers>,
    /// The row there that is row 0 here.
    first: usize,
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

/// Rows in a type and a layout of the file format: what kernels multiply with.
#[derive(Debug, Clone)]
pub struct NativeRows {
    quant: QuantType,
    block: BlockSize,
    layout: Layout,
    /// How many rows, from the first on, are in panels.
    panel_rows: usize,
    row_bytes: usize,
    bytes: TensorBytes,
    /// What codes of a learned type stand for; `None`: the type is no learned one, or these are the built-in tables.
    tables: Option<Arc<CodeTables>>,
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

    /// What codes of a learned type stand for.
    pub fn tables(&self) -> &CodeTables {
        self.tables.as_deref().unwrap_or(&qsf_format::BUILT_IN)
    }

    /// Order of the bytes.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// How many rows, from the first on, are in panels: a multiple of 16. The others are plain rows of blocks.
    pub fn panel_rows(&self) -> usize {
        self.panel_rows
    }

    /// Bytes of a row. Rows that are in panels share 16 times as many.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// All bytes, in the order of the layout.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// The bytes of the rows `rows`, in the order of the layout.
    ///
    /// # Panics
    /// When the range exceeds the rows or cuts a panel.
    pub fn rows(&self, rows: Range<usize>) -> &[u8] {
        &self.bytes()[self.range(rows)]
    }

    /// Where the rows `rows` are, which must be whole panels and plain rows.
    fn range(&self, rows: Range<usize>) -> Range<usize> {
        let whole = |row: usize| row.is_multiple_of(PANEL_ROWS) || row >= self.panel_rows;
        assert!(whole(rows.start) && whole(rows.end), "rows {rows:?} cut a panel");
        rows.start * self.row_bytes..rows.end * self.row_bytes
    }

    /// Row `row` as floats.
    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        if row >= self.panel_rows {
            return decode_row(isa, self.quant, self.block, self.tables(), self.rows(row..row + 1), out);
        }
        let first = row - row % PANEL_ROWS;
        let panel = self.rows(first..first + PANEL_ROWS);
        decode_panel_row(isa, self.quant, self.block, self.tables(), panel, row - first, out);
    }
}

/// The bytes of a tensor: a range of a mapped file, or of memory of our own.
#[derive(Debug, Clone)]
pub enum TensorBytes {
    /// In place in a file.
    Mapped(Arc<Mmap>, Range<usize>),
    /// Decompressed, transposed or converted.
    Owned(Arc<Vec<u8>>, Range<usize>),
    /// In memory that was set aside for it.
    Region(Arc<Region>, Range<usize>),
}

impl TensorBytes {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            TensorBytes::Mapped(map, range) => &map[range.clone()],
            TensorBytes::Owned(vec, range) => &vec[range.clone()],
            TensorBytes::Region(region, range) => &region[range.clone()],
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
            TensorBytes::Region(region, all) => TensorBytes::Region(region.clone(), shift(all)),
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

    /// The same for bytes in any layout that the type can have.
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
        if expected != Some(bytes.as_slice().len() as u64) {
            return Err(expected);
        }
        // Fits: the rows together are a slice in memory, and with no rows nothing is ever read.
        let row_bytes = bytes.as_slice().len().checked_div(rows).unwrap_or(0);
        let panel_rows = layout.panel_rows(rows);
        let block = quant.block_size(block);
        let native = NativeRows { quant, block, layout, panel_rows, row_bytes, bytes, tables: None };
        Ok(Tensor { rows, cols, values: Values::Native(native), outliers: None })
    }

    /// The same with the tables of the file that it is from, if it is of a learned type.
    #[must_use]
    pub fn with_tables(mut self, tables: &Arc<CodeTables>) -> Tensor {
        if let Values::Native(native) = &mut self.values {
            native.tables = native.quant.is_learned().then(|| tables.clone());
        }
        self
    }

    /// The same with weights that are stored apart from its blocks: each is added to what the blocks decode to. Row 0 has
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
        self.native().is_some_and(|native| !native.quant.is_float())
    }

    /// Bytes of all rows as stored, with what is stored apart from the blocks.
    pub fn stored_bytes(&self) -> u64 {
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
            for (row, out) in out.chunks_mut(self.cols).enumerate() {
                self.decode_row(Isa::best(), row, out);
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
