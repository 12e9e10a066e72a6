//! Some columns of one product, on one thread.

use std::cell::RefCell;
use std::ops::Range;

use qsf_cpu::{
    AlignedFloats, Cpu, PanelKernel, PanelTask, RowScratch, RowTask, Rows, float_dot, float_matvec,
};
use qsf_format::panels::PANEL_ROWS;

use super::input::{Coded, Input};
use super::output::Output;
use crate::tensor::{NativeRows, Tensor};

/// Decoded weights that a thread multiplies with a batch of tokens at a time, when all tokens come through the caches: three quarters of a
/// small second-level cache.
const BATCH_FLOATS: usize = (768 << 10) / size_of::<f32>();
/// Fewest and most rows of these.
const BATCH_ROWS: (usize, usize) = (16, 64);
/// Decoded weights that a thread multiplies with a single token at a time: half of a small first-level cache.
const DECODED_FLOATS: usize = (16 << 10) / size_of::<f32>();

/// Memory that a thread keeps from one task to the next.
#[derive(Default)]
struct Scratch {
    /// Begins at a cache line: products of rows that lie across two take up to a sixth longer.
    decoded: AlignedFloats,
    results: Vec<f32>,
    rows: RowScratch,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Bytes of weights that are checked and then multiplied with, where checks were deferred: less than a small second-level cache.
const CHECKED_BYTES: usize = 256 << 10;

/// One matrix of a call, and where its product with the input goes.
pub(super) struct MatrixProduct<'a> {
    pub(super) weight: &'a Tensor,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) out: Output<'a>,
    /// Its first unit of rows in the call.
    pub(super) first_unit: usize,
}

/// Computes some columns of a product's output.
///
/// # Safety
/// No other thread may use the same columns of the output at the same time.
pub(super) unsafe fn run_task(cpu: &Cpu, product: &MatrixProduct<'_>, rows: Range<usize>, input: &Input<'_>) {
    let unchecked = product.weight.native().filter(|native| !native.is_settled());
    let step = unchecked.map_or(rows.len(), |native| {
        (CHECKED_BYTES / native.row_bytes().max(1)).next_multiple_of(2 * PANEL_ROWS)
    });
    for first in rows.clone().step_by(step.max(1)) {
        // SAFETY: the caller's promise.
        unsafe { run_rows(cpu, product, first..rows.end.min(first + step), input) };
    }
}

/// # Safety
/// As [`run_task`].
unsafe fn run_rows(cpu: &Cpu, product: &MatrixProduct<'_>, rows: Range<usize>, input: &Input<'_>) {
    SCRATCH.with_borrow_mut(|scratch| {
        let (weight, out) = (product.weight, &product.out);
        // SAFETY: the caller's promise.
        unsafe {
            let quant = weight.native().map(NativeRows::quant);
            let scratch_rows = &mut scratch.rows;
            let done = match input.coded {
                Some(Coded::Int8(x)) => {
                    let kernel = quant.and_then(|quant| cpu.kernels().int8(quant));
                    block_rows(kernel, weight, rows.clone(), x, scratch_rows, out)
                }
                Some(Coded::Wide(x)) => {
                    let kernel = quant.and_then(|quant| cpu.kernels().wide(quant));
                    block_rows(kernel, weight, rows.clone(), x, scratch_rows, out)
                }
                None => false,
            };
            if !done {
                float_rows(cpu, weight, rows.clone(), input, scratch, out);
            }
        }
        if let Some(bias) = product.bias {
            for token in 0..input.rows() {
                // SAFETY: the caller's promise.
                let out = unsafe { product.out.part_of_row(token, rows.clone()) };
                for (out, bias) in out.iter_mut().zip(&bias[rows.clone()]) {
                    *out += bias;
                }
            }
        }
    });
}

/// The columns `rows` of the output, from weights decoded to floats: those of float types in registers where there is
/// one token, others in memory.
///
/// # Safety
/// No other thread may use these columns at the same time.
unsafe fn float_rows(
    cpu: &Cpu,
    weight: &Tensor,
    rows: Range<usize>,
    input: &Input<'_>,
    scratch: &mut Scratch,
    out: &Output<'_>,
) {
    let (k, m) = (input.k, input.rows());
    if let Some(native) = weight.native().filter(|native| m == 1 && native.quant().is_float())
        && !weight.has_outliers()
    {
        // SAFETY: the caller's promise.
        let out = unsafe { out.part_of_row(0, rows.clone()) };
        return float_matvec::matvec(cpu.isa(), native.quant(), native.rows(rows), input.x, out);
    }
    let Scratch { decoded, results, .. } = scratch;
    let step = match m {
        1 => (DECODED_FLOATS / k).next_multiple_of(4).max(4),
        _ => (BATCH_FLOATS / k / BATCH_ROWS.0 * BATCH_ROWS.0).clamp(BATCH_ROWS.0, BATCH_ROWS.1),
    };
    let step = step.min(rows.len().max(1));
    let decoded = decoded.at_least(step * k);
    if results.len() < step * m {
        results.resize(step * m, 0.0);
    }
    for first in rows.clone().step_by(step) {
        let part = first..rows.end.min(first + step);
        let decoded = &mut decoded[..part.len() * k];
        for (row, decoded) in part.clone().zip(decoded.chunks_exact_mut(k)) {
            weight.decode_row(cpu.isa(), row, decoded);
        }
        let results = &mut results[..part.len() * m];
        float_dot::matmul(cpu.isa(), decoded, input.x, k, results);
        // SAFETY: the caller's promise.
        unsafe { out.store_transposed(part, results) };
    }
}

/// The columns `rows` of the output, by a kernel for block types, if there is one. `rows` starts at a multiple of 16, and ends at one
/// or with the weight's last row.
///
/// # Safety
/// No other thread may use these columns at the same time.
unsafe fn block_rows<X: Rows>(
    kernel: Option<&PanelKernel<X>>,
    tensor: &Tensor,
    rows: Range<usize>,
    input: &X,
    scratch: &mut RowScratch,
    out: &Output<'_>,
) -> bool {
    let Some((kernel, weight)) = kernel.zip(tensor.native()) else {
        return false;
    };
    let (block, tables, tokens) = (weight.block(), weight.tables(), 0..input.rows());
    let blocks = input.cols().div_ceil(block.get());
    let border = weight.panel_rows().clamp(rows.start, rows.end);
    let (in_panels, plain) = (rows.start..border, border..rows.end);
    let (weights, panels) = (weight.rows(in_panels.clone()), in_panels.len() / PANEL_ROWS);
    let task = PanelTask { weights, panels, blocks, block, tables, input, tokens: tokens.clone() };
    // SAFETY: the columns are the caller's, and there are as many rows of output as tokens.
    unsafe { kernel.matmul(&task, out.columns(in_panels)) };
    if !plain.is_empty() {
        let (weights, rows) = (weight.rows(plain.clone()), plain.len());
        let task = RowTask { weights, rows, block, tables, input, tokens };
        // SAFETY: as above.
        unsafe { kernel.matmul_rows(&task, scratch, out.columns(plain)) };
    }
    // SAFETY: the caller's promise.
    unsafe { add_outliers(tensor, rows, input, out) };
    true
}

/// Adds to the columns `rows` of the output what the weights do that are stored apart from the blocks, with the activations
/// that the kernel saw: `value * x`, with codes `value * (scale * code)`, each rounded and added, in ascending order of columns. So the
/// result has the same bits whatever kernel of codes went before, and is what decoding the weights would give.
///
/// # Safety
/// No other thread may use these columns at the same time.
unsafe fn add_outliers<X: Rows>(weight: &Tensor, rows: Range<usize>, input: &X, out: &Output<'_>) {
    if !weight.has_outliers() {
        return;
    }
    for row in rows {
        let (cols, values) = weight.outliers(row);
        if cols.is_empty() {
            continue;
        }
        for token in 0..input.rows() {
            // SAFETY: the caller's promise.
            let out = unsafe { out.part_of_row(token, row..row + 1) };
            for (col, value) in cols.iter().zip(values) {
                out[0] += value * input.value(token, usize::from(*col));
            }
        }
    }
}
