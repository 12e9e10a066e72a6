//! Kernels with the vector instructions of x86-64.

mod amx;
mod avx2;
mod avx512;
mod batch;
mod fetch;
mod group;
mod recode;
mod sse;
mod tiles;
mod tiles_bf16;
mod wide;
mod wide_units;

pub(in crate::cpu) use tiles_bf16::AmxBf16;

use super::KernelTable;
use wide::matmul_amx;

pub(super) static SSE: KernelTable = table!("sse", sse::matmul);
pub(super) static AVX2: KernelTable = table!("avx2", avx2::matmul);
pub(super) static AVX_VNNI: KernelTable = table!("avxvnni", avx2::matmul_vnni);
pub(super) static AVX512: KernelTable = table!("avx512", avx512::matmul);
pub(super) static AMX: KernelTable =
    KernelTable { wide: wide_table!("amx", matmul_amx), ..table!("amx", amx::matmul) };
