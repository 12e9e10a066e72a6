//! Weight matrices times activations, on all threads.

mod gated;
mod output;

use std::cell::RefCell;
use std::ops::Range;

use qsf_format::Activation;
use qsf_format::panels::PANEL_ROWS;

use crate::tensor::{NativeRows, Tensor};
use output::Output;
use qsf_cpu::{
    Cpu, Int8Rows, Int8x256Rows, PanelKernel, PanelTask, RowScratch, RowTask, Rows, float_dot, float_matvec,
};

/// Decoded weight rows that a thread multiplies with a batch of tokens at a time: each time, all tokens come through the caches.
const DECODED_ROWS: usize = 16;
/// Decoded weights that a thread multiplies with a single token at a time: half of a small first-level cache.
const DECODED_FLOATS: usize = (16 << 10) / size_of::<f32>();
/// Most weight rows of one task in a batch: with its tokens' codes they must stay in the second-level cache.
const BATCH_ROWS: usize = 64;
/// Most weight rows of one task of the wide kernels, where tokens come through that cache again for so many rows: more would save
/// little, and leave threads with unequal shares of the smaller matrices.
const WIDE_BATCH_ROWS: usize = 128;
/// Weights times tokens below which a task is not worth handing to a thread.
const TASK_WORK: usize = 1 << 17;
/// Tasks per thread, so that a thread that was interrupted does not hold up the rest.
const TASKS_PER_THREAD: usize = 6;
/// Most weights of one call.
const MAX_WEIGHTS: usize = 4;

/// Activations that weights are multiplied with: m rows (tokens) of k floats, and optionally the same in a form that kernels for
/// weights of block types take.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    x: &'a [f32],
    k: usize,
    coded: Option<Coded<'a>>,
}

#[derive(Debug, Clone, Copy)]
enum Coded<'a> {
    Int8(&'a Int8Rows),
    Wide(&'a Int8x256Rows),
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
    /// that ([`KernelTable::has_matrix_unit`](qsf_cpu::KernelTable::has_matrix_unit)), weights are decoded to floats.
    ///
    /// # Panics
    /// When `k` is 0 or does not divide the length of `x`, or `wide` has another shape.
    pub fn with_wide(x: &'a [f32], k: usize, wide: &'a Int8x256Rows) -> Input<'a> {
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
    fn task_rows(&self, all_rows: usize, threads: usize) -> usize {
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

/// Memory that a thread keeps from one task to the next.
#[derive(Default)]
struct Scratch {
    decoded: Vec<f32>,
    results: Vec<f32>,
    rows: RowScratch,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// One matrix of a call, and where its product with the input goes.
struct MatrixProduct<'a> {
    weight: &'a Tensor,
    bias: Option<&'a [f32]>,
    out: Output<'a>,
    first_task: usize,
}

/// Products of stored weights and activations, on the threads of a backend.
pub trait Products {
    /// `out = input * weight^T + bias`: `out` is m x `weight.rows()`, row major.
    ///
    /// Weights of block types use the kernels for the form that the input has; without one, and for float types, rows are
    /// decoded to floats.
    ///
    /// # Panics
    /// When the shapes do not fit together.
    fn linear(&self, weight: &Tensor, bias: Option<&[f32]>, input: &Input<'_>, out: &mut [f32]);

    /// [`Products::linear`] with up to four weights and one input, spread over the threads together.
    ///
    /// # Panics
    /// When the shapes do not fit together, or there are more weights or not one output for each.
    fn linears(&self, weights: &[(&Tensor, Option<&[f32]>)], input: &Input<'_>, outs: &mut [&mut [f32]]);

    /// [`Products::linear`] with some rows of a weight: fills the columns of `out` from `first` on, as many as `weight` has rows, with what
    /// the whole weight would give there.
    ///
    /// # Panics
    /// When the shapes do not fit together, or `first` is not at a panel.
    fn linear_rows(
        &self,
        weight: &Tensor,
        bias: Option<&[f32]>,
        input: &Input<'_>,
        out: &mut [f32],
        first: usize,
    );

    /// `out[r] = input . weight[r]` for a single input and the rows r of the panels of 16 rows whose numbers are `panels`;
    /// the rest of `out` stays as it is.
    ///
    /// # Panics
    /// When the shapes do not fit together, there is not one input, or `panels` is not ascending or exceeds the weight.
    fn linear_panels(&self, weight: &Tensor, panels: &[u32], input: &Input<'_>, out: &mut [f32]);

    /// `out = activation(input * gate^T + bias) * (input * up^T + bias)`, value by value, for the pair of `gate` and `up`: the same bits
    /// as [`Products::linears`] and [`gated`](qsf_cpu::gated) give. `out` is m x rows of the weights, row major.
    ///
    /// # Panics
    /// When the shapes do not fit together.
    fn gated_linear(
        &self,
        activation: Activation,
        pair: [(&Tensor, Option<&[f32]>); 2],
        input: &Input<'_>,
        out: &mut [f32],
    );
}

impl Products for Cpu {
    fn linear(&self, weight: &Tensor, bias: Option<&[f32]>, input: &Input<'_>, out: &mut [f32]) {
        self.linears(&[(weight, bias)], input, &mut [out]);
    }

    fn linears(&self, weights: &[(&Tensor, Option<&[f32]>)], input: &Input<'_>, outs: &mut [&mut [f32]]) {
        assert_eq!(weights.len(), outs.len(), "one output per weight");
        assert!(weights.len() <= MAX_WEIGHTS, "{} weights in one call", weights.len());
        let m = input.rows();
        if m == 0 {
            return;
        }
        let all_rows: usize = weights.iter().map(|(weight, _)| weight.rows()).sum();
        let task_rows = input.task_rows(all_rows, self.threads());
        let mut products: [Option<MatrixProduct<'_>>; MAX_WEIGHTS] = [const { None }; MAX_WEIGHTS];
        let mut tasks = 0;
        for ((slot, (weight, bias)), out) in products.iter_mut().zip(weights).zip(outs) {
            assert_eq!(weight.cols(), input.k, "weight of other columns than the input");
            assert!(bias.is_none_or(|bias| bias.len() == weight.rows()), "bias of another length");
            assert_eq!(out.len(), m * weight.rows(), "output of another size");
            let out = Output::columns_of(out, m, 0..weight.rows());
            *slot = Some(MatrixProduct { weight, bias: *bias, out, first_task: tasks });
            tasks += weight.rows().div_ceil(task_rows);
        }
        let work = all_rows.saturating_mul(input.k).saturating_mul(m);
        self.for_each(tasks, work, |task| {
            // The products start in ascending order: the last that does not start behind the task has it.
            let product = products.iter().flatten().rev().find(|product| product.first_task <= task);
            if let Some(product) = product {
                let first = (task - product.first_task) * task_rows;
                let rows = first..product.weight.rows().min(first + task_rows);
                // SAFETY: tasks are run once each, and each has rows of its own.
                unsafe { run_task(self, product, rows, input) };
            }
        });
    }

    fn linear_rows(
        &self,
        weight: &Tensor,
        bias: Option<&[f32]>,
        input: &Input<'_>,
        out: &mut [f32],
        first: usize,
    ) {
        let (m, rows) = (input.rows(), weight.rows());
        if m == 0 {
            return;
        }
        assert_eq!(weight.cols(), input.k, "weight of other columns than the input");
        assert!(bias.is_none_or(|bias| bias.len() == rows), "bias of another length");
        assert!(first.is_multiple_of(PANEL_ROWS), "rows from {first} on cut a panel");
        let task_rows = input.task_rows(rows, self.threads());
        let out = Output::columns_of(out, m, first..first + rows);
        let product = MatrixProduct { weight, bias, out, first_task: 0 };
        let work = rows.saturating_mul(input.k).saturating_mul(m);
        self.for_each(rows.div_ceil(task_rows), work, |task| {
            let first = task * task_rows;
            // SAFETY: tasks are run once each, and each has rows of its own.
            unsafe { run_task(self, &product, first..rows.min(first + task_rows), input) };
        });
    }

    fn linear_panels(&self, weight: &Tensor, panels: &[u32], input: &Input<'_>, out: &mut [f32]) {
        assert_eq!((input.rows(), weight.cols()), (1, input.k), "not one input of the weight's columns");
        assert!(panels.is_sorted_by(|a, b| a < b), "panels that do not ascend");
        assert_eq!(out.len(), weight.rows(), "output of another size");
        let out = Output::columns_of(out, 1, 0..weight.rows());
        let product = MatrixProduct { weight, bias: None, out, first_task: 0 };
        let rows = panels.len() * PANEL_ROWS;
        let per_task = input.task_rows(rows, self.threads()) / PANEL_ROWS;
        self.for_each(panels.len().div_ceil(per_task), rows.saturating_mul(input.k), |task| {
            let panels = &panels[task * per_task..panels.len().min((task + 1) * per_task)];
            for run in panels.chunk_by(|a, b| a + 1 == *b) {
                let first = run[0] as usize * PANEL_ROWS;
                let rows = first..weight.rows().min(first + run.len() * PANEL_ROWS);
                // SAFETY: tasks are run once each, no panel is in two of them, and so each has rows of its own.
                unsafe { run_task(self, &product, rows, input) };
            }
        });
    }

    fn gated_linear(
        &self,
        activation: Activation,
        pair: [(&Tensor, Option<&[f32]>); 2],
        input: &Input<'_>,
        out: &mut [f32],
    ) {
        gated::gated_linear(self, activation, pair, input, out);
    }
}

/// Computes some columns of a product's output.
///
/// # Safety
/// No other thread may use the same columns of the output at the same time.
unsafe fn run_task(cpu: &Cpu, product: &MatrixProduct<'_>, rows: Range<usize>, input: &Input<'_>) {
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
    let step = if m == 1 { (DECODED_FLOATS / k).next_multiple_of(4).max(4) } else { DECODED_ROWS };
    if decoded.len() < step * k {
        decoded.resize(step * k, 0.0);
    }
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

#[cfg(test)]
mod tests;
