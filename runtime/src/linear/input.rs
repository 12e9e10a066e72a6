//! Activations as kernels take them, and how their products are shared among threads.

use qsf_cpu::{Int8Rows, Int8x128Rows};
use qsf_format::panels::PANEL_ROWS;

/// Most weight rows of one task in a batch: with its tokens' codes they must stay in the second-level cache.
const BATCH_ROWS: usize = 64;
/// Most weight rows of one task of the wide kernels, where tokens come through that cache again for so many rows: more would save
/// little, and leave threads with unequal shares of the smaller matrices.
const WIDE_BATCH_ROWS: usize = 128;
/// Weights times tokens below which a task is not worth handing to a thread.
const TASK_WORK: usize = 1 << 17;
/// Tasks per thread, so that a thread that was interrupted does not hold up the rest.
const TASKS_PER_THREAD: usize = 6;

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

    /// Rows of a task over `all_rows` weight rows: enough to be worth a thread's while, few enough to share the work evenly; whole
    /// panels.
    pub(super) fn task_rows(&self, all_rows: usize, threads: usize) -> usize {
        let m = self.rows();
        let worthwhile = TASK_WORK.div_ceil(self.k * m);
        let even_share = all_rows.div_ceil(threads * TASKS_PER_THREAD);
        let most = match self.coded {
            _ if m == 1 => usize::MAX,
            Some(Coded::Wide(_)) => WIDE_BATCH_ROWS,
            _ => BATCH_ROWS,
        };
        // Wide kernels multiply two panels at a time.
        let unit = if let Some(Coded::Wide(_)) = self.coded { 2 * PANEL_ROWS } else { PANEL_ROWS };
        worthwhile.max(even_share).min(most).next_multiple_of(unit)
    }
}
