//! The CPU backend: instruction sets, the arithmetic that is the same on all of them, and kernels.
//!
//! | File | Duty |
//! |---|---|
//! | `isa` | which instruction sets there are, compiling plain Rust for them |
//! | `lanes`, `vector`, `float_dot` | float arithmetic in one fixed order: single, in registers, in tiles |
//! | `activations` | activations as 8-bit codes |
//! | `decode` | stored weights to floats |
//! | `kernels` | integer kernels and the table of all kernels |
//! | `linear` | weight matrix times activations, on all threads |
//! | `attention`, `aligned` | attention over the key/value cache, memory for it |
//! | `math`, `norm`, `elementwise`, `rope`, `rope_frequencies` | the rest of a decoder |
//! | `threads`, `rows`, `shared` | how work is spread over threads: any, rows of matrices, outputs in common |
//!
//! Results have the same bits on every instruction set, for every number of threads, and for a token alone or in a batch.

mod activations;
mod aligned;
mod attention;
mod decode;
mod elementwise;
mod float_dot;
mod isa;
mod kernels;
pub mod lanes;
mod linear;
pub mod math;
mod norm;
mod rope;
mod rope_frequencies;
mod rows;
mod shared;
pub mod threads;
mod vector;

pub use activations::{ACT_BLOCK, Int8Rows};
pub use attention::{Attention, AttentionBuffer, KvLayer};
pub use decode::{bf16_to_f32, decode_row, f16_to_f32};
pub use elementwise::{activate, add_assign, add_scaled, gated, scale, softcap};
pub use isa::{CpuError, Isa, Vectorized};
pub use kernels::{Int8Kernel, KernelEntry, KernelTable};
pub use linear::Input;
pub use norm::{layer_norm, layer_norm_in_place, rms_norm, rms_norm_in_place};
pub use rope::RopeTable;
pub use rope_frequencies::RopeFrequencies;

/// An instruction set and its kernels.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    isa: Isa,
    kernels: &'static KernelTable,
}

impl Cpu {
    /// The backend for this instruction set.
    pub fn new(isa: Isa) -> Cpu {
        Cpu { isa, kernels: KernelTable::of(isa) }
    }

    /// The backend for the instruction set that the environment variable `QSF_CPU` names, else the fastest.
    ///
    /// # Errors
    /// When the variable names something unknown or something that this processor lacks.
    pub fn from_env() -> Result<Cpu, CpuError> {
        Isa::from_env().map(Cpu::new)
    }

    /// The instruction set.
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// Its kernels.
    pub const fn kernels(&self) -> &'static KernelTable {
        self.kernels
    }
}
