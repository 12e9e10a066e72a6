//! Rows of a tensor in another order, as stored: copied once, multiplied by the same kernels.

use std::sync::Arc;

use qsf_format::panels::{PANEL_ROWS, copy_panel_row, pack_panel};
use qsf_format::{Layout, Outliers};
use rayon::prelude::*;

use super::matrix::{Tensor, Values};
use super::native_rows::NativeRows;
use crate::error::{Result, RuntimeError};

impl Tensor {
    /// The rows `rows` of this one, whole panels of them, in panels where the type has blocks. A row of the result has the
    /// values and, multiplied with anything, the bits of the row that it is a copy of. `None` for a tensor that is not in a
    /// type of the file format.
    ///
    /// # Errors
    /// When memory runs out.
    ///
    /// # Panics
    /// When the number of `rows` is no multiple of 16, or there is no such row.
    pub(crate) fn gather_rows(&self, rows: &[u32]) -> Result<Option<Tensor>> {
        let Values::Native(native) = &self.values else { return Ok(None) };
        assert!(rows.len().is_multiple_of(PANEL_ROWS), "{} rows are not whole panels", rows.len());
        assert!(rows.iter().all(|row| (*row as usize) < self.rows), "a row beyond {}", self.rows);
        let len = rows.len().saturating_mul(native.row_bytes);
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| RuntimeError::OutOfMemory {
            what: "rows of the head by clusters".into(),
            bytes: len as u64,
        })?;
        bytes.resize(len, 0);
        let panel = PANEL_ROWS * native.row_bytes;
        let floats = native.quant.is_float();
        if panel > 0 {
            bytes.par_chunks_mut(panel).zip(rows.par_chunks(PANEL_ROWS)).for_each_init(
                || vec![0; panel],
                |scratch, (out, rows)| {
                    for (to, &row) in rows.iter().enumerate() {
                        if floats {
                            let row = row as usize;
                            out[to * native.row_bytes..][..native.row_bytes]
                                .copy_from_slice(native.rows(row..row + 1));
                        } else {
                            native.copy_row(row as usize, scratch, out, to);
                        }
                    }
                },
            );
        }
        let layout = if floats { Layout::Rows } else { Layout::Panels16 };
        let panel_rows = layout.panel_rows(rows.len());
        let native = NativeRows { layout, panel_rows, bytes: bytes.into(), ..native.clone() };
        let gathered =
            Tensor { rows: rows.len(), cols: self.cols, values: Values::Native(native), outliers: None };
        Ok(Some(if self.has_outliers() {
            gathered.with_outliers(Arc::new(self.gather_outliers(rows)), 0)
        } else {
            gathered
        }))
    }
}

impl Tensor {
    /// What is stored apart from the blocks of the rows `rows`.
    fn gather_outliers(&self, rows: &[u32]) -> Outliers {
        let mut gathered = Outliers::default();
        for &row in rows {
            let (cols, values) = self.outliers(row as usize);
            let row: Vec<(u16, f32)> = cols.iter().copied().zip(values.iter().copied()).collect();
            gathered.push_row(&row);
        }
        gathered
    }
}

impl NativeRows {
    /// Copies a row of a block type to row `to` of the panel `out`; `scratch` has the bytes of a panel.
    fn copy_row(&self, row: usize, scratch: &mut [u8], out: &mut [u8], to: usize) {
        if row < self.panel_rows {
            let first = row - row % PANEL_ROWS;
            let panel = self.rows(first..first + PANEL_ROWS);
            copy_panel_row(self.quant, self.block, panel, row - first, out, to);
        } else {
            pack_panel(self.quant, self.block, &[self.rows(row..row + 1)], scratch);
            copy_panel_row(self.quant, self.block, scratch, 0, out, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::panels::interleave;
    use qsf_format::{BlockSize, QuantType};

    use super::*;

    const COLS: usize = 70;

    #[test]
    fn gathered_rows_have_the_values_of_the_rows_they_are_copies_of() {
        // 37 rows: two panels and five plain rows; all of them, backwards, and some twice.
        let rows: Vec<u32> = (0..48).map(|i| (36 + 37 * 2 - i * 5 % 37) % 37).collect();
        for quant in QuantType::ALL {
            let row_bytes = quant.row_bytes(BlockSize::B64, COLS as u64).unwrap() as usize;
            let mut plain: Vec<u8> = (0..37 * row_bytes).map(|i| ((i * 167 + i / 7) % 113) as u8).collect();
            if quant.is_float() {
                plain.iter_mut().for_each(|byte| *byte %= 60);
            }
            let tensor = |layout, bytes: Vec<u8>| {
                Tensor::with_layout(37, COLS, quant, BlockSize::B64, layout, bytes.into()).unwrap()
            };
            let mut tensors = vec![tensor(Layout::Rows, plain.clone())];
            if !quant.is_float() {
                let panels = interleave(quant, BlockSize::B64, COLS, &plain);
                tensors.push(tensor(Layout::Panels16, panels));
            }
            for tensor in tensors {
                let gathered = tensor.gather_rows(&rows).unwrap().unwrap();
                let (found, all) = (gathered.to_f32(), tensor.to_f32());
                for (found, &row) in found.chunks_exact(COLS).zip(&rows) {
                    let expected = &all[row as usize * COLS..][..COLS];
                    assert!(
                        found.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits()),
                        "{quant}, row {row}"
                    );
                }
            }
        }
    }
}
