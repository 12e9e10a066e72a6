//! The CPU backend: instruction sets, the arithmetic that is the same on all of them, and kernels.

mod isa;
pub mod lanes;

pub use isa::{CpuError, Isa, Vectorized};
