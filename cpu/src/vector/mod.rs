//! The 16 lanes as registers, for the loops that hold several accumulators: the compiler keeps vector types in registers
//! where it would spill arrays, which costs a factor of ten. The arithmetic is that of `lanes`, lane by lane.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod operations;
mod plain;
mod prefetch;
mod run;
#[cfg(target_feature = "simd128")]
mod simd128;

pub use operations::{Quad, Vector, VectorWork};
pub(super) use prefetch::{CacheLevel, LINE, prefetch, prefetch_lines, prefetch_second};
pub use run::run;
