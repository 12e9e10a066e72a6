//! Weight matrices times activations, on all threads.

mod output;

use std::cell::RefCell;
use std::ops::Range;

use super::activations::Int8Rows;
use super::{Cpu, float_dot};
use crate::source::Tensor;
use output::Output;

/// Decoded weights that a thread works on at a time: half of a small first-level cache.
const DECODED_FLOATS: usize = (16 << 10) / size_of::<f32>();
/// Most weight rows of one task in a batch: its results must stay in the second-level cache.
const BATCH_ROWS: usize = 32;
/// Weights below which a task is not worth handing to a thread.
const TASK_WEIGHTS: usize = 1 << 15;
/// Most weights of one call: query, key and value.
const MAX_WEIGHTS: usize = 3;
/// Tasks per thread, so that a thread that was interrupted does not hold up the rest.
const TASKS_PER_THREAD: usize = 8;

/// Activations that weights are multiplied with: m rows (tokens) of k floats, and optionally the same as 8-bit codes.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    x: &'a [f32],
    k: usize,
    int8: Option<&'a Int8Rows>,
}

impl<'a> Input<'a> {
    /// Floats only: weights of every type are decoded to floats.
    ///
    /// # Panics
    /// When `k` is 0 or does not divide the length of `x`.
    pub fn float(x: &'a [f32], k: usize) -> Input<'a> {
        assert!(k > 0 && x.len().is_multiple_of(k), "{} activations are not rows of {k}", x.len());
        Input { x, k, int8: None }
    }

    /// Floats and their codes: weights of block types are multiplied with the codes.
    ///
    /// # Panics
    /// When `k` is 0 or does not divide the length of `x`, or `int8` has another shape.
    pub fn with_int8(x: &'a [f32], k: usize, int8: &'a Int8Rows) -> Input<'a> {
        let input = Input::float(x, k);
        assert_eq!((int8.rows(), int8.cols()), (input.rows(), k), "codes of another shape");
        Input { int8: Some(int8), ..input }
    }

    /// Rows (tokens), m.
    pub fn rows(&self) -> usize {
        self.x.len() / self.k
    }

    /// Columns, k.
    pub fn cols(&self) -> usize {
        self.k
    }
}

/// Memory that a thread keeps from one task to the next.
#[derive(Default)]
struct Scratch {
    decoded: Vec<f32>,
    results: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// One matrix of a call.
struct Job<'a> {
    weight: &'a Tensor,
    bias: Option<&'a [f32]>,
    out: Output<'a>,
    task_rows: usize,
    first_task: usize,
}

impl Cpu {
    /// `out = input * weight^T + bias`: `out` is m x `weight.rows()`, row major.
    ///
    /// Weights of block types use the integer kernels when the input has codes; else, and for float types, rows are
    /// decoded to floats.
    ///
    /// # Panics
    /// When the shapes do not fit together.
    pub fn linear(&self, weight: &Tensor, bias: Option<&[f32]>, input: &Input<'_>, out: &mut [f32]) {
        self.linears(&[(weight, bias)], input, &mut [out]);
    }

    /// [`Cpu::linear`] with several weights and one input, spread over the threads together.
    ///
    /// # Panics
    /// When the shapes do not fit together, there is not one output per weight, or there are more than three.
    pub fn linears(&self, weights: &[(&Tensor, Option<&[f32]>)], input: &Input<'_>, outs: &mut [&mut [f32]]) {
        assert_eq!(weights.len(), outs.len(), "one output per weight");
        assert!(weights.len() <= MAX_WEIGHTS, "too many weights");
        let m = input.rows();
        if m == 0 {
            return;
        }
        let all_rows: usize = weights.iter().map(|(weight, _)| weight.rows()).sum();
        let task_rows = task_rows(all_rows, input.k, m, self.threads());
        let mut jobs = [const { None }; MAX_WEIGHTS];
        let mut tasks = 0;
        for (((weight, bias), out), job) in weights.iter().zip(outs).zip(&mut jobs) {
            assert_eq!(weight.cols(), input.k, "weight of other columns than the input");
            assert!(bias.is_none_or(|bias| bias.len() == weight.rows()), "bias of another length");
            let out = Output::new(out, m, weight.rows());
            *job = Some(Job { weight, bias: *bias, out, task_rows, first_task: tasks });
            tasks += weight.rows().div_ceil(task_rows);
        }
        let work = all_rows.saturating_mul(input.k).saturating_mul(m);
        self.pool.for_each(tasks, work, |task| {
            // The jobs start in ascending order: the last that does not start behind the task has it.
            let job = jobs.iter().flatten().rev().find(|job| job.first_task <= task);
            if let Some(job) = job {
                let first = (task - job.first_task) * job.task_rows;
                // SAFETY: tasks are run once each, and each has rows of its own.
                unsafe { self.run_task(job, first..job.weight.rows().min(first + job.task_rows), input) };
            }
        });
    }

    /// Computes some columns of a job's output.
    ///
    /// # Safety
    /// No other thread may use the same columns of the output at the same time.
    unsafe fn run_task(&self, job: &Job<'_>, rows: Range<usize>, input: &Input<'_>) {
        SCRATCH.with_borrow_mut(|Scratch { decoded, results }| {
            let bias = job.bias.map(|bias| &bias[rows.clone()]);
            if input.rows() == 1 {
                // SAFETY: the caller's promise.
                let out = unsafe { job.out.columns_of_one_row(rows.clone()) };
                self.rows_into(job.weight, rows, input, decoded, out);
                for (out, bias) in out.iter_mut().zip(bias.into_iter().flatten()) {
                    *out += bias;
                }
                return;
            }
            let len = rows.len() * input.rows();
            if results.len() < len {
                results.resize(len, 0.0);
            }
            let results = &mut results[..len];
            self.rows_into(job.weight, rows.clone(), input, decoded, results);
            for (results, bias) in results.chunks_exact_mut(input.rows()).zip(bias.into_iter().flatten()) {
                for result in results {
                    *result += bias;
                }
            }
            // SAFETY: the caller's promise.
            unsafe { job.out.store_transposed(rows, results) };
        });
    }

    /// `out[r * m + t] = weight[rows][r] . input[t]`.
    fn rows_into(
        &self,
        weight: &Tensor,
        rows: Range<usize>,
        input: &Input<'_>,
        decoded: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        if let (Some(x), Some(native)) = (input.int8, weight.native())
            && let Some(kernel) = self.kernels.int8(native.quant())
        {
            kernel.matmul(native.block(), native.rows(rows.clone()), rows.len(), x, out);
            return;
        }
        let (k, m) = (input.k, input.rows());
        let step = (DECODED_FLOATS / k).next_multiple_of(4).max(4);
        if decoded.len() < step * k {
            decoded.resize(step * k, 0.0);
        }
        for (first, out) in rows.clone().step_by(step).zip(out.chunks_mut(step * m)) {
            let count = step.min(rows.end - first);
            let decoded = &mut decoded[..count * k];
            for (row, decoded) in (first..).zip(decoded.chunks_exact_mut(k)) {
                weight.decode_row(self.isa, row, decoded);
            }
            float_dot::matmul(self.isa, decoded, input.x, k, out);
        }
    }
}

/// Rows of a task: enough to be worth a thread's while, few enough to share the work evenly; a multiple of four, as
/// kernels take up to four rows at a time.
fn task_rows(all_rows: usize, k: usize, m: usize, threads: usize) -> usize {
    let worthwhile = TASK_WEIGHTS.div_ceil(k * m);
    let even_share = all_rows.div_ceil(threads * TASKS_PER_THREAD);
    let rows = worthwhile.max(even_share);
    let rows = if m > 1 { rows.min(BATCH_ROWS) } else { rows };
    rows.next_multiple_of(4)
}

#[cfg(test)]
mod tests;
