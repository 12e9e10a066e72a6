//! Rows in a type and a layout of the file format.

use std::ops::Range;
use std::sync::Arc;

use qsf_format::panels::PANEL_ROWS;
use qsf_format::{BlockSize, CodeTables, FileMap, Layout, QuantType};

use super::bytes::TensorBytes;
use qsf_cpu::{Isa, decode_panel_row, decode_row};

/// Rows in a type and a layout of the file format: what kernels multiply with.
#[derive(Debug, Clone)]
pub struct NativeRows {
    pub(super) quant: QuantType,
    pub(super) block: BlockSize,
    pub(super) layout: Layout,
    /// How many rows, from the first on, are in panels.
    pub(super) panel_rows: usize,
    pub(super) row_bytes: usize,
    pub(super) bytes: TensorBytes,
    /// What codes of a learned type stand for; `None`: the type is no learned one, or these are the built-in tables.
    pub(super) tables: Option<Arc<CodeTables>>,
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

    /// Whether using the bytes means checking them.
    pub fn is_settled(&self) -> bool {
        self.bytes.is_settled()
    }

    /// Where a mapped file has these bytes, where they are used there.
    pub fn mapped(&self) -> Option<(Arc<FileMap>, Range<usize>)> {
        match &self.bytes {
            TensorBytes::Mapped(map, range) => Some((map.clone(), range.clone())),
            TensorBytes::Owned(..) | TensorBytes::Region(..) => None,
        }
    }

    /// The bytes of the rows `rows`, in the order of the layout.
    ///
    /// # Panics
    /// When the range exceeds the rows or cuts a panel.
    pub fn rows(&self, rows: Range<usize>) -> &[u8] {
        self.bytes.part(self.range(rows))
    }

    /// Where the rows `rows` are, which must be whole panels and plain rows.
    pub(super) fn range(&self, rows: Range<usize>) -> Range<usize> {
        let whole = |row: usize| row.is_multiple_of(PANEL_ROWS) || row >= self.panel_rows;
        assert!(whole(rows.start) && whole(rows.end), "rows {rows:?} cut a panel");
        rows.start * self.row_bytes..rows.end * self.row_bytes
    }

    /// Row `row` as floats.
    pub(super) fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        if row >= self.panel_rows {
            return decode_row(isa, self.quant, self.block, self.tables(), self.rows(row..row + 1), out);
        }
        let first = row - row % PANEL_ROWS;
        let panel = self.rows(first..first + PANEL_ROWS);
        decode_panel_row(isa, self.quant, self.block, self.tables(), panel, row - first, out);
    }
}
