//! The CPU backend: instruction sets, the arithmetic that is the same on all of them, and kernels.
//!
//! | File | Duty |
//! |---|---|
//! | `isa` | which instruction sets there are, compiling plain Rust for them |
//! | `lanes`, `vector`, `float_dot` | float arithmetic in one fixed order: single, in registers, in tiles |
//! | `activations`, `int8x256_rows` | activations as 8-bit codes, 32 to a scale, and 256 in the order of matrix units |
//! | `bf16_unit` | what attention asks of a matrix unit |
//! | `decode`, `decode_learned` | stored weights to floats |
//! | `float_matvec` | stored floats times a single token |
//! | `kernels` | kernels for weights in blocks, and the table of all kernels |
//! | `linear` | weight matrix times activations, on all threads |
//! | `attention`, `aligned`, `hadamard` | attention over the key/value cache, memory for it, the rotation before few bits |
//! | `second_moments` | sums of outer products of activations, for calibration |
//! | `math`, `norm`, `elementwise`, `rope`, `rope_frequencies` | the rest of a decoder |
//! | `threads`, `rows`, `shared` | the pool that work is spread over, rows of matrices on it, outputs that threads share |
//!
//! Results have the same bits on every instruction set, for every number of threads, and for a token alone or in a batch. The
//! exceptions must be asked for, and only some processors have them: products in wide groups ([`Input::with_wide`]), and attention by
//! a matrix unit ([`Attention::by_unit`]).

mod activations;
mod aligned;
mod attention;
#[cfg(any(test, target_arch = "x86_64"))]
mod bf16_unit;
mod decode;
mod decode_learned;
mod elementwise;
mod float_dot;
mod float_matvec;
mod hadamard;
mod int8x256_rows;
mod isa;
mod kernels;
pub mod lanes;
mod linear;
pub mod math;
mod norm;
mod rope;
mod rope_frequencies;
mod rows;
mod second_moments;
mod shared;
pub mod threads;
pub mod vector;

pub use activations::{ACT_BLOCK, Int8Rows};
pub use aligned::AlignedFloats;
pub use attention::{Attention, AttentionBuffer, KvLayer, KvShape, KvType, KvTypes};
pub use decode::{bf16_to_f32, decode_panel_row, decode_row, f16_to_f32};
pub use elementwise::{activate, add_assign, add_scaled, gated, scale, softcap};
#[cfg(feature = "gpu")]
pub(crate) use hadamard::hadamard_block;
pub use int8x256_rows::Int8x256Rows;
pub use isa::{CpuError, Isa, Vectorized};
pub use kernels::{Int8Kernel, KernelEntry, KernelTable, WideKernel};
pub use linear::Input;
pub use norm::{layer_norm, layer_norm_in_place, rms_norm, rms_norm_in_place};
pub use rope::RopeTable;
pub use rope_frequencies::RopeFrequencies;
pub use second_moments::ColumnPanels;

use std::sync::Arc;

use threads::{Pinning, Pool, PoolError};

/// An instruction set, its kernels, and the threads that run them. A clone shares the threads.
#[derive(Debug, Clone)]
pub struct Cpu {
    isa: Isa,
    kernels: &'static KernelTable,
    pool: Arc<Pool>,
}

impl Cpu {
    /// The backend for this instruction set, on the [pool of this process](Pool::of_process).
    pub fn new(isa: Isa) -> Cpu {
        Cpu::with_pool(isa, Pool::of_process())
    }

    /// The backend for the instruction set that the environment variable `QSF_CPU` names, else the fastest.
    ///
    /// # Errors
    /// When the variable names something unknown or something that this processor lacks.
    pub fn from_env() -> Result<Cpu, CpuError> {
        Isa::from_env().map(Cpu::new)
    }

    /// The backend for this instruction set, on these threads.
    pub fn with_pool(isa: Isa, pool: Arc<Pool>) -> Cpu {
        Cpu { isa, kernels: KernelTable::of(isa), pool }
    }

    /// The backend for this instruction set, on a pool of its own of so many threads.
    ///
    /// # Errors
    /// When the number is 0 or absurd, or the system refuses.
    pub fn with_threads(isa: Isa, threads: usize) -> Result<Cpu, PoolError> {
        Ok(Cpu::with_pool(isa, Arc::new(Pool::new(threads, Pinning::Free)?)))
    }

    /// The instruction set.
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// Its kernels.
    pub const fn kernels(&self) -> &'static KernelTable {
        self.kernels
    }

    /// The threads.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// [`Pool::for_each`] on the threads of this backend.
    pub fn for_each<F: Fn(usize) + Sync>(&self, tasks: usize, work: usize, task: F) {
        self.pool.for_each(tasks, work, task);
    }

    /// [`Pool::for_each_chunk`] on the threads of this backend.
    pub fn for_each_chunk<F>(&self, out: &mut [f32], chunk: usize, work: usize, task: F)
    where
        F: Fn(usize, &mut [f32]) + Sync,
    {
        self.pool.for_each_chunk(out, chunk, work, task);
    }
}
