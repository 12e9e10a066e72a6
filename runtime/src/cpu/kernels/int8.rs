//! What an int8 kernel is given, and the arithmetic that all of them share.
//!
//! A weight is `a * u + b` with an unsigned code u (8-bit: a signed code and no b); an activation is `dx * x` with a
//! signed code x. For each group of 32 columns, in ascending order:
//!
//! ```text
//! isum[l] = sum of u * x over elements 4l..4l+4 of the group        exact, l in 0..8
//! acc[l]  = fma(a * dx, isum[l], acc[l])                            a * dx is rounded once
//! accb    = fma(b, sx, accb)                                        sx = dx * (sum of x)
//! ```
//!
//! and the result is `tree(acc) + accb`. Every kernel does exactly this, so all give the same bits, alone or in a batch.

use qsf_format::{BlockSize, QuantType};

use crate::cpu::activations::Int8Rows;

/// Some rows of a weight matrix of block type, and activations to multiply them with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Int8Task<'a> {
    pub(super) weights: &'a [u8],
    pub(super) rows: usize,
    pub(super) blocks: usize,
    pub(super) row_bytes: usize,
    pub(super) block: BlockSize,
    pub(super) input: &'a Int8Rows,
}

impl<'a> Int8Task<'a> {
    /// Task over `rows` consecutive rows of type `quant` stored in `weights`.
    ///
    /// # Panics
    /// When `weights` is not that many rows of as many columns as `input` has.
    fn new(
        quant: QuantType,
        block: BlockSize,
        weights: &'a [u8],
        rows: usize,
        input: &'a Int8Rows,
    ) -> Int8Task<'a> {
        let blocks = input.cols().div_ceil(block.get());
        let row_bytes = blocks * quant.block_bytes(block);
        assert_eq!(
            Some(weights.len()),
            rows.checked_mul(row_bytes),
            "weights do not fit the input's columns"
        );
        Int8Task { weights, rows, blocks, row_bytes, block, input }
    }

    /// Results of the task: rows x tokens.
    pub(super) fn len(&self) -> usize {
        self.rows * self.input.rows()
    }
}

/// Computes a task into rows x tokens floats.
///
/// # Safety
/// The processor must have the instruction set that the function was compiled for. The output must hold
/// [`Int8Task::len`] values.
pub(super) type Int8Fn = unsafe fn(Int8Task<'_>, &mut [f32]);

/// A kernel for one stored type.
#[derive(Debug, Clone, Copy)]
pub struct Int8Kernel {
    pub(super) quant: QuantType,
    pub(super) name: &'static str,
    // Private to the kernels: a table, and so a kernel, is only had from an `Isa`, which proves the instruction set.
    pub(super) matmul: Int8Fn,
}

impl Int8Kernel {
    /// The name in reports.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The stored type of the weights.
    pub const fn quant(&self) -> QuantType {
        self.quant
    }

    /// Computes `out[r * tokens + t] = weights[r] . input[t]` for `rows` consecutive rows of block type in `weights`.
    ///
    /// # Panics
    /// When `weights` is not that many rows of as many columns as `input` has, or `out` has another length.
    pub fn matmul(&self, block: BlockSize, weights: &[u8], rows: usize, input: &Int8Rows, out: &mut [f32]) {
        let task = Int8Task::new(self.quant, block, weights, rows, input);
        assert_eq!(out.len(), task.len(), "output of another size");
        // SAFETY: a kernel comes from the table of an `Isa`, whose value proves the instruction set; the output's length
        // has just been checked.
        unsafe { (self.matmul)(task, out) }
    }
}

/// The eight lanes' sum: halves are added until one is left, as `lanes::sum` does from eight on.
pub(super) fn tree(v: [f32; 8]) -> f32 {
    let [a, b, c, d] = [v[0] + v[4], v[1] + v[5], v[2] + v[6], v[3] + v[7]];
    (a + c) + (b + d)
}
