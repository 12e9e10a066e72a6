//! Kernels with the vector instructions of x86-64.

mod amx;
mod amx_bf16;
mod avx2;
mod avx512;
mod batch;
mod fetch;
mod group;
mod sse;
mod tiles;
mod tiles_bf16;

pub(in crate::cpu) use tiles::available as amx_available;

use super::KernelTable;
use amx_bf16::matmul as matmul_bf16;

pub(super) static SSE: KernelTable = table!("sse", sse::matmul);
pub(super) static AVX2: KernelTable = table!("avx2", avx2::matmul);
pub(super) static AVX_VNNI: KernelTable = table!("avxvnni", avx2::matmul_vnni);
pub(super) static AVX512: KernelTable = table!("avx512", avx512::matmul);
pub(super) static AMX: KernelTable =
    KernelTable { bf16: bf16_table!("amx", matmul_bf16), ..table!("amx", amx::matmul) };
