//! Kernels with the vector instructions of x86-64.
//!
//! | File | Duty |
//! |---|---|
//! | `sse`, `avx2`, `avx512` | what the panel product needs of each set |
//! | `batch` | the panel product of several tokens, which unpacks codes once for many |
//! | `fetch` | how far ahead weights are fetched |
//! | `tiles`, `tiles_bytes`, `tiles_bf16` | the tile unit of AMX, for weights, and for attention with bytes and bfloat16 |
//! | `vectors_bytes` | products of bytes by vector instructions, for attention over many tokens |
//! | `weights_bf16` | weights of attention in bfloat16 |
//! | `group` | a group of a panel, unpacked for the tile unit |
//! | `amx`, `amx_scratch` | the panel product by tiles, and what a thread keeps for it |
//! | `wide`, `recode` | the product in wide groups, and weights recoded for it |
//! | `wide_tiles`, `wide_units` | a pass of it by a unit for tiles, and that unit |
//! | `wide_vnni` | a pass of it by vector instructions |

mod amx;
mod amx_scratch;
mod avx2;
mod avx512;
mod batch;
mod fetch;
mod group;
mod recode;
mod sse;
mod tiles;
mod tiles_bf16;
mod tiles_bytes;
mod vectors_bytes;
mod weights_bf16;
mod wide;
mod wide_tiles;
mod wide_units;
mod wide_vnni;

pub(crate) use tiles_bf16::AmxBf16;
pub(crate) use tiles_bytes::AmxBytes;
pub(crate) use vectors_bytes::Avx512Bytes;

use super::table::KernelTable;
use amx::matmul as amx_matmul;
use avx2::{matmul as avx2_matmul, matmul_vnni};
use avx512::{matmul as avx512_matmul, matmul_vbmi};
use sse::matmul as sse_matmul;
use wide_tiles::matmul_amx as wide_amx;
use wide_vnni::matmul_vnni as wide_vnni_matmul;

pub(super) static SSE: KernelTable = table!("sse", sse_matmul);
pub(super) static AVX2: KernelTable = table!("avx2", avx2_matmul);
pub(super) static AVX_VNNI: KernelTable = table!("avxvnni", matmul_vnni);
pub(super) static AVX512: KernelTable =
    KernelTable { wide: &kernels!("avx512-int8-128", wide_vnni_matmul), ..table!("avx512", avx512_matmul) };
/// That of processors which have VBMI and VBMI2 as well.
pub(super) static AVX512_VBMI: KernelTable = KernelTable { int8: &kernels!("avx512", matmul_vbmi), ..AVX512 };
pub(super) static AMX: KernelTable =
    KernelTable { wide: &kernels!("amx-int8-128", wide_amx), ..table!("amx", amx_matmul) };
