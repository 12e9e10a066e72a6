//! An output matrix that several threads fill, each its own columns.

use std::marker::PhantomData;
use std::ops::Range;

use qsf_cpu::PanelOut;

/// Some columns of a row-major matrix of m rows (tokens) that is borrowed mutably and filled by columns from several threads.
pub(super) struct Output<'a> {
    /// Of the first column.
    start: *mut f32,
    /// Its number.
    first: usize,
    rows: usize,
    cols: usize,
    /// Columns of the whole matrix.
    stride: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: the matrix is only written through the unsafe methods, whose callers promise columns of their own.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// The columns `columns` of `out`, which has so many rows.
    ///
    /// # Panics
    /// When `out` is not so many rows, or has fewer columns.
    pub(super) fn columns_of(out: &'a mut [f32], rows: usize, columns: Range<usize>) -> Output<'a> {
        let stride = out.len() / rows.max(1);
        assert_eq!(out.len(), rows * stride, "output is not {rows} rows");
        assert!(columns.start <= columns.end && columns.end <= stride, "columns {columns:?} of {stride}");
        // SAFETY: inside of the slice, or just behind it.
        let start = unsafe { out.as_mut_ptr().add(columns.start) };
        Output { start, first: 0, rows, cols: columns.len(), stride, borrow: PhantomData }
    }

    /// A matrix that holds only the columns `columns` of another: they keep their numbers.
    ///
    /// # Panics
    /// When `out` is not so many rows of so many columns.
    pub(super) fn only(out: &'a mut [f32], rows: usize, columns: Range<usize>) -> Output<'a> {
        assert_eq!(out.len(), rows * columns.len(), "output is not {rows} rows of {columns:?}");
        let (start, cols) = (out.as_mut_ptr(), columns.len());
        Output { start, first: columns.start, rows, cols, stride: cols, borrow: PhantomData }
    }

    /// Rows (tokens).
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Where columns are, counted from the first.
    fn place(&self, columns: &Range<usize>) -> usize {
        assert!(self.first <= columns.start && columns.start <= columns.end, "columns {columns:?}");
        assert!(columns.end - self.first <= self.cols, "columns {columns:?} of {}", self.first + self.cols);
        columns.start - self.first
    }

    /// Where a kernel puts the columns: those of row t at `t * stride`.
    ///
    /// # Panics
    /// When the matrix has fewer columns.
    pub(super) fn columns(&self, columns: Range<usize>) -> PanelOut {
        let place = self.place(&columns);
        // SAFETY: inside the borrowed slice, or just behind it where there are no columns.
        PanelOut { start: unsafe { self.start.add(place) }, stride: self.stride }
    }

    /// Some columns of one row.
    ///
    /// # Panics
    /// When there are fewer rows or columns.
    ///
    /// # Safety
    /// No one else may use these columns while the result lives.
    #[expect(clippy::mut_from_ref, reason = "the columns are the caller's own, by contract")]
    pub(super) unsafe fn part_of_row(&self, row: usize, columns: Range<usize>) -> &mut [f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let place = self.place(&columns);
        // SAFETY: inside the borrowed slice, and the caller's own.
        unsafe {
            let start = self.start.add(row * self.stride + place);
            std::slice::from_raw_parts_mut(start, columns.len())
        }
    }

    /// Stores `values` (columns x rows) into the columns.
    ///
    /// # Panics
    /// When the matrix has fewer columns or `values` has another size.
    ///
    /// # Safety
    /// No one else may use these columns during the call.
    pub(super) unsafe fn store_transposed(&self, columns: Range<usize>, values: &[f32]) {
        assert_eq!(values.len(), columns.len() * self.rows);
        for row in 0..self.rows {
            // SAFETY: the caller's promise.
            let out = unsafe { self.part_of_row(row, columns.clone()) };
            for (out, value) in out.iter_mut().zip(values[row..].iter().step_by(self.rows)) {
                *out = *value;
            }
        }
    }
}
