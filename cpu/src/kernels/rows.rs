//! Weights in plain rows (SPEC.md section 6, layout 0): brought into panels on the way, 16 rows at a time. It costs a few
//! times the product for a single token, and nothing that counts for a batch.

use std::ops::Range;

use qsf_format::panels::{PANEL_ROWS, pack_panel};
use qsf_format::{BlockSize, CodeTables};

use super::panel::{PanelKernel, PanelOut, PanelTask, Rows};
use crate::activations::Int8Rows;

/// Memory that a thread keeps from one call to the next.
#[derive(Debug, Default)]
pub struct RowScratch {
    panel: Vec<u8>,
    results: Vec<f32>,
}

/// Plain rows of a weight matrix of block type, and activations to multiply them with.
#[derive(Debug, Clone)]
pub struct RowTask<'a, X = Int8Rows> {
    /// `rows` rows, one after the other.
    pub weights: &'a [u8],
    /// How many.
    pub rows: usize,
    /// Values per block, of this type.
    pub block: BlockSize,
    /// What codes of a learned type stand for.
    pub tables: &'a CodeTables,
    /// Activations of all tokens of the call.
    pub input: &'a X,
    /// The tokens to compute.
    pub tokens: Range<usize>,
}

impl<X: Rows> PanelKernel<X> {
    /// Computes a task over plain rows: the result of row r with token t goes to `start + t * stride + r`.
    ///
    /// # Panics
    /// When `weights` is not `rows` rows of as many columns as `input` has, or the input has fewer tokens.
    ///
    /// # Safety
    /// There must be room for every result behind `out.start`, and no other thread may use it meanwhile.
    pub unsafe fn matmul_rows(&self, task: &RowTask<'_, X>, scratch: &mut RowScratch, out: PanelOut) {
        let RowTask { weights, rows, block, tables, input, .. } = *task;
        let blocks = input.cols().div_ceil(block.get());
        let row_bytes = self.quant.row_head_bytes() + blocks * self.quant.block_bytes(block);
        assert_eq!(Some(weights.len()), rows.checked_mul(row_bytes), "weights are not {rows} rows");
        scratch.panel.resize(PANEL_ROWS * row_bytes, 0);
        for first in (0..rows).step_by(PANEL_ROWS) {
            let count = PANEL_ROWS.min(rows - first);
            let mut plain: [&[u8]; PANEL_ROWS] = [&[]; PANEL_ROWS];
            for (row, plain) in (first..).zip(&mut plain[..count]) {
                *plain = &weights[row * row_bytes..][..row_bytes];
            }
            pack_panel(self.quant, block, &plain[..count], &mut scratch.panel);
            let weights = scratch.panel.as_slice();
            let tokens = task.tokens.clone();
            let panel = PanelTask { weights, panels: 1, blocks, block, tables, input, tokens };
            if count == PANEL_ROWS {
                // SAFETY: 16 rows are left, and the rest is the caller's promise.
                unsafe { self.matmul(&panel, PanelOut { start: out.start.add(first), ..out }) };
                continue;
            }
            let len = task.tokens.end * PANEL_ROWS;
            if scratch.results.len() < len {
                scratch.results.resize(len, 0.0);
            }
            let results = PanelOut { start: scratch.results.as_mut_ptr(), stride: PANEL_ROWS };
            // SAFETY: the results have just been given room for 16 rows of every token.
            unsafe { self.matmul(&panel, results) };
            for token in task.tokens.clone() {
                let results = &scratch.results[token * PANEL_ROWS..][..count];
                // SAFETY: the caller's promise, for the rows that there are.
                unsafe {
                    let out = out.start.add(token * out.stride + first);
                    std::ptr::copy_nonoverlapping(results.as_ptr(), out, count);
                }
            }
        }
    }
}
