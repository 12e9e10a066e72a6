//! Activations as kernels take them, and how their products are shared among threads.

use std::ops::{Range, RangeInclusive};

use qsf_cpu::{Int8Rows, Int8x128Rows};
use qsf_format::panels::PANEL_ROWS;

/// Most weight rows of one part in a batch: with its tokens' codes they must stay in the second-level cache.
const BATCH_ROWS: usize = 64;
/// Most weight rows of one part of the wide kernels, where tokens come through that cache again for so many rows: more would save
/// little, and leave threads with unequal shares of the smaller matrices.
const WIDE_BATCH_ROWS: usize = 128;
/// Weights times tokens below which a part is not worth handing to a thread.
const PART_WORK: usize = 1 << 16;

/// Activations that weights are multiplied with: m rows (tokens) of k floats, and optionally the same in a form that kernels for
/// weights of block types take.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub(super) x: &'a [f32],
    pub(super) k: usize,
    pub(super) coded: Option<Coded<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Coded<'a> {
    Int8(&'a Int8Rows),
    Wide(&'a Int8x128Rows),
}

impl<'a> Input<'a> {
    /// Floats only: weights of every type are decoded to floats.
    ///
    /// # Panics
    /// When `k` is 0 or does not divide the length of `x`.
    pub fn float(x: &'a [f32], k: usize) -> Input<'a> {
        assert!(k > 0 && x.len().is_multiple_of(k), "{} activations are not rows of {k}", x.len());
        Input { x, k, coded: None }
    }

    /// Floats and their codes: weights of block types are multiplied with the codes.
    ///
    /// # Panics
    /// When `k` is 0 or does not divide the length of `x`, or `int8` has another shape.
    pub fn with_int8(x: &'a [f32], k: usize, int8: &'a Int8Rows) -> Input<'a> {
        let input = Input::float(x, k);
        assert_eq!((int8.rows(), int8.cols()), (input.rows(), k), "codes of another shape");
        Input { coded: Some(Coded::Int8(int8)), ..input }
    }

    /// Floats and their codes in wide groups, for which weights of block types are recoded too. Where the processor has no kernels for
    /// that ([`KernelTable::has_wide`](qsf_cpu::KernelTable::has_wide)), weights are decoded to floats.
    ///
    /// # Panics
    /// When `k` is 0 or does not divide the length of `x`, or `wide` has another shape.
    pub fn with_wide(x: &'a [f32], k: usize, wide: &'a Int8x128Rows) -> Input<'a> {
        let input = Input::float(x, k);
        assert_eq!((wide.rows(), wide.cols()), (input.rows(), k), "codes of another shape");
        Input { coded: Some(Coded::Wide(wide)), ..input }
    }

    /// Rows (tokens), m.
    pub fn rows(&self) -> usize {
        self.x.len() / self.k
    }

    /// Columns, k.
    pub fn cols(&self) -> usize {
        self.k
    }

    /// How rows of weights are shared among threads.
    pub(super) fn row_parts(&self) -> RowParts {
        let m = self.rows();
        let (rows, most) = match self.coded {
            // Wide kernels multiply two panels at a time.
            Some(Coded::Wide(_)) => (2 * PANEL_ROWS, WIDE_BATCH_ROWS),
            _ if m == 1 => (PANEL_ROWS, usize::MAX),
            _ => (PANEL_ROWS, BATCH_ROWS),
        };
        let most = most / rows;
        let least = PART_WORK.div_ceil(self.k * m).div_ceil(rows).min(most);
        RowParts { rows, units: least..=most }
    }
}

/// Rows in parts: enough in each to be worth a thread's while, and whole panels.
pub(super) struct RowParts {
    /// Rows of a unit. The last of a matrix may have fewer.
    rows: usize,
    /// Units of a part.
    pub units: RangeInclusive<usize>,
}

impl RowParts {
    /// Units of so many rows.
    pub fn count(&self, rows: usize) -> usize {
        rows.div_ceil(self.rows)
    }

    /// The rows of some units, of a matrix of `all` rows.
    pub fn rows_of(&self, units: Range<usize>, all: usize) -> Range<usize> {
        units.start * self.rows..all.min(units.end * self.rows)
    }
}
