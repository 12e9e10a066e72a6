//! Kernels with the vector instructions of x86-64.
//!
//! | File | Duty |
//! |---|---|
//! | `sse`, `avx2`, `avx512` | what the panel product needs of each set |
//! | `batch` | the panel product of several tokens, which unpacks codes once for many |
//! | `fetch` | how far ahead weights are fetched |
//! | `tiles`, `tiles_bf16` | the tile unit of AMX, for bytes and for bfloat16 |
//! | `group` | a group of a panel, unpacked for the tile unit |
//! | `amx`, `amx_scratch` | the panel product by tiles, and what a thread keeps for it |
//! | `wide`, `wide_units`, `recode` | the product in wide groups, its units, and weights recoded for it |

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
mod wide;
mod wide_units;

pub(crate) use tiles_bf16::AmxBf16;

use super::table::KernelTable;
use amx::matmul as amx_matmul;
use avx2::{matmul as avx2_matmul, matmul_vnni};
use avx512::matmul as avx512_matmul;
use sse::matmul as sse_matmul;
use wide::matmul_amx as wide_matmul;

pub(super) static SSE: KernelTable = table!("sse", sse_matmul);
pub(super) static AVX2: KernelTable = table!("avx2", avx2_matmul);
pub(super) static AVX_VNNI: KernelTable = table!("avxvnni", matmul_vnni);
pub(super) static AVX512: KernelTable = table!("avx512", avx512_matmul);
pub(super) static AMX: KernelTable =
    KernelTable { wide: &kernels!("amx-int8-256", wide_matmul), ..table!("amx", amx_matmul) };
