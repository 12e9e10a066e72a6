//! What weights of block types are multiplied with, and by what attention over many tokens is computed.

use super::matrix_times::MatrixTimes;
use crate::linear::{Input, Latents};
use qsf_cpu::{Cpu, Int8Rows, Int8x128Rows};

/// Type of the activations that quantized matrices are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activations {
    /// Quantized to 8 bits, a scale per 32 values: what runs by default where weights are in blocks.
    Int8,
    /// Quantized to 8 bits, a scale per 128 values, where there are many tokens; weights are recoded to 8 bits for that, with a scale
    /// per 256 of a row, and attention over them is in bytes or bfloat16 where the processor multiplies many of these at once. Results
    /// are not those of other processors. Few tokens, and all on processors without kernels for it
    /// ([`KernelTable::has_wide`](qsf_cpu::KernelTable::has_wide)), are as [`Activations::Int8`] says.
    Int8Wide,
    /// 32-bit floats: the reference.
    F32,
}

/// The fewest tokens that are multiplied in wide groups: for fewer, recoding the weights takes longer than it saves.
pub const LEAST_WIDE_TOKENS: usize = 32;

impl Activations {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Activations::Int8 => "int8",
            Activations::Int8Wide => "int8-128",
            Activations::F32 => "f32",
        }
    }

    /// Those of the head: its rounding errors go straight into logits, of which a text needs those of one token at a time anyway.
    pub(super) fn of_head(self) -> Activations {
        match self {
            Activations::Int8Wide => Activations::Int8,
            Activations::Int8 | Activations::F32 => self,
        }
    }

    /// Whether so many tokens are multiplied in wide groups, on processors with kernels for that.
    pub(super) fn by_unit(self, tokens: usize) -> bool {
        self == Activations::Int8Wide && tokens >= LEAST_WIDE_TOKENS
    }
}

/// Activations in the form that kernels take. A buffer: filled again and again, it only grows.
#[derive(Debug, Default)]
pub(super) struct CodedRows {
    int8: Int8Rows,
    wide: Int8x128Rows,
    /// Between both matrices of adapters.
    pub latents: Latents,
    /// What products take.
    pub times: MatrixTimes,
}

impl CodedRows {
    /// Rows of `cols` floats as the input of matrices, of which some are of block types if `blocks`.
    pub(super) fn input<'a>(
        &'a mut self,
        cpu: &Cpu,
        activations: Activations,
        x: &'a [f32],
        cols: usize,
        blocks: bool,
    ) -> Input<'a> {
        let rows = x.len() / cols;
        match activations {
            _ if !blocks => Input::float(x, cols),
            Activations::F32 => Input::float(x, cols),
            _ if activations.by_unit(rows) && cpu.kernels().has_wide() => {
                self.wide.quantize(cpu, x, rows, cols);
                Input::with_wide(x, cols, &self.wide)
            }
            Activations::Int8 | Activations::Int8Wide => {
                self.int8.quantize(cpu, x, rows, cols);
                Input::with_int8(x, cols, &self.int8)
            }
        }
    }
}
