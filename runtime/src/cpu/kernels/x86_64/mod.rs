//! Kernels with the vector instructions of x86-64.

mod amx;
mod avx2;
mod avx512;
mod batch;
mod fetch;
mod sse;
mod tiles;

pub(in crate::cpu) use tiles::available as amx_available;

use super::KernelTable;

pub(super) static SSE: KernelTable = table!("sse", sse::matmul);
pub(super) static AVX2: KernelTable = table!("avx2", avx2::matmul);
pub(super) static AVX_VNNI: KernelTable = table!("avxvnni", avx2::matmul_vnni);
pub(super) static AVX512: KernelTable = table!("avx512", avx512::matmul);
pub(super) static AMX: KernelTable = table!("amx", amx::matmul);
