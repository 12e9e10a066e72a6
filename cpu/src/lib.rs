//! The CPU backend: instruction sets, the arithmetic that is the same on all of them, and kernels.
//!
//! Four rows become probabilities, on all threads, by the fastest instructions of the processor:
//!
//! ```
//! use qsf_cpu::{Cpu, Isa, math};
//!
//! # fn main() -> Result<(), qsf_cpu::CpuError> {
//! let cpu = Cpu::from_env()?;
//! let logits: Vec<f32> = (0..4000_u16).map(|i| f32::from(i % 7)).collect();
//! let mut fast = logits.clone();
//! cpu.for_each_chunk(&mut fast, 1000, logits.len(), |_row, row| math::softmax_in_place(cpu.isa(), row));
//!
//! // The same bits as plain Rust on one thread.
//! let mut plain = logits;
//! plain.chunks_mut(1000).for_each(|row| math::softmax_in_place(Isa::SCALAR, row));
//! assert_eq!(fast, plain);
//! # Ok(())
//! # }
//! ```
//!
//! | File | Duty |
//! |---|---|
//! | `isa`, `tile_permission`, `backend` | which instruction sets there are, compiling plain Rust for them; one of them with the threads |
//! | `lanes`, `vector`, `float_dot` | float arithmetic in one fixed order: single, in registers, in tiles |
//! | `activations`, `int8x128_rows` | activations as 8-bit codes, 32 to a scale, and 256 in the order of matrix units |
//! | `bf16_unit`, `byte_unit` | what attention asks of a matrix unit |
//! | `byte_products` | what it asks of vector instructions that multiply bytes |
//! | `decode`, `decode_learned`, `float16`, `row_blocks` | stored weights to floats |
//! | `stored_floats`, `float_matvec`, `float_columns` | stored floats, times a single token, and as columns that are added up |
//! | `kernels` | kernels for weights in blocks, and the table of all kernels |
//! | `attention`, `aligned`, `slabs`, `hadamard` | attention over the key/value cache, memory for it, the rotation before few bits |
//! | `stream_sums` | magnitudes of residual streams, and cut-offs of gates |
//! | `recurrent` | mixers that carry a state: convolutions of channels, the gated delta rule |
//! | `second_moments` | sums of outer products of activations, for calibration |
//! | `memory` | memory that can be refused |
//! | `math`, `power_of_two`, `norm`, `function`, `elementwise`, `rope`, `rope_frequencies` | the rest of a decoder |
//! | `threads`, `rows`, `shared` | the pool that work is spread over, rows of matrices on it, outputs that threads share |
//!
//! Results have the same bits on every instruction set, for every number of threads, and for a token alone or in a batch. The
//! exceptions must be asked for, and only some processors have them: products in wide groups ([`WideKernel`]), and attention by a
//! matrix unit ([`Attention::by_unit`]).

mod activations;
mod aligned;
mod attention;
mod backend;
#[cfg(any(test, target_arch = "x86_64"))]
mod bf16_unit;
#[cfg(any(test, target_arch = "x86_64"))]
mod byte_products;
mod byte_unit;
mod decode;
mod decode_learned;
mod elementwise;
mod float16;
mod float_columns;
pub mod float_dot;
pub mod float_matvec;
mod function;
#[cfg(target_feature = "simd128")]
mod fused;
mod hadamard;
mod int8x128_rows;
mod isa;
mod kernels;
pub mod lanes;
pub mod math;
mod memory;
mod norm;
mod power_of_two;
mod recurrent;
mod rope;
mod rope_frequencies;
mod row_blocks;
mod rows;
mod second_moments;
mod shared;
mod slabs;
mod stored_floats;
mod stream_sums;
pub mod threads;
#[cfg(target_arch = "x86_64")]
mod tile_permission;
pub mod vector;

pub use activations::{ACT_BLOCK, Int8Rows};
pub use aligned::AlignedFloats;
pub use attention::{Attention, AttentionBuffer, KvLayer, KvShape, KvType, KvTypes, QueryOfOne};
pub use backend::Cpu;
pub use decode::{decode_panel_row, decode_row};
pub use elementwise::{
    activate, add_assign, add_scaled, clip, gated, multiply, scale, sigmoid_gated, softcap,
};
pub use float_columns::FloatColumns;
pub use float16::{bf16_to_f32, f16_to_f32};
pub use function::{Function, gate};
pub use hadamard::hadamard_block;
pub use int8x128_rows::Int8x128Rows;
pub use isa::{CpuError, Isa, Vectorized};
pub use kernels::{
    Int8Kernel, KernelEntry, KernelTable, PanelKernel, PanelOut, PanelTask, RowScratch, RowTask, Rows,
    WideKernel,
};
pub use memory::{OutOfMemory, zeros};
pub use norm::{layer_norm, layer_norm_in_place, rms_norm, rms_norm_in_place};
pub use recurrent::{
    GatedDelta, SelectiveScan, ShortConv, StateSpace, decays, keep_last, positive_steps, rates,
    scale_to_length,
};
pub use rope::RopeTable;
pub use rope_frequencies::RopeFrequencies;
pub use second_moments::ColumnPanels;
pub use slabs::Slabs;
pub use stream_sums::{cut_off, magnitude, products, rescale};
