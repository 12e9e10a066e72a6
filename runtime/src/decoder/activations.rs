//! What weights of block types are multiplied with.

use crate::cpu::{Bf16Rows, Cpu, Input, Int8Rows};

/// Type of the activations that quantized matrices are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activations {
    /// Quantized to 8 bits, a scale per 32 values: what runs by default where weights are in blocks.
    Int8,
    /// Rounded to bfloat16, as the weights then are too, where a matrix unit multiplies many tokens; else 8 bits, as everywhere on
    /// processors that have none ([`KernelTable::has_bf16`](crate::cpu::KernelTable::has_bf16)). Results are not those of other
    /// processors to the last bit.
    Bf16,
    /// 32-bit floats: the reference.
    F32,
}

/// The fewest tokens that are multiplied in bfloat16: for fewer, rounding the weights takes longer than it saves.
pub const LEAST_BF16_TOKENS: usize = 64;

impl Activations {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Activations::Int8 => "int8",
            Activations::Bf16 => "bf16",
            Activations::F32 => "f32",
        }
    }
}

/// Activations in the form that kernels take. A buffer: filled again and again, it only grows.
#[derive(Debug, Default)]
pub(super) struct CodedRows {
    int8: Int8Rows,
    bf16: Bf16Rows,
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
            Activations::Bf16 if rows >= LEAST_BF16_TOKENS && cpu.kernels().has_bf16() => {
                self.bf16.round(cpu, x, rows, cols);
                Input::with_bf16(x, cols, &self.bf16)
            }
            Activations::Int8 | Activations::Bf16 => {
                self.int8.quantize(cpu, x, rows, cols);
                Input::with_int8(x, cols, &self.int8)
            }
        }
    }
}
