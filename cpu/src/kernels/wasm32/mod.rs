//! Kernels with the vector instructions of WebAssembly. There is no detection: a module that has such instructions is refused as a
//! whole where they are unknown.
//!
//! | File | Duty |
//! |---|---|
//! | `simd128` | sixteen rows in four registers, for the panel product |

mod simd128;

use super::table::KernelTable;
use simd128::matmul as simd128_matmul;

pub(super) static SIMD128: KernelTable = table!("simd128", simd128_matmul);
