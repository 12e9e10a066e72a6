//! Kernels with the vector instructions of aarch64.
//!
//! | File | Duty |
//! |---|---|
//! | `panel_isa` | sixteen rows in four registers, for the panel product of a single token |
//! | `batch` | the panel product of several tokens, which unpacks codes once for many |
//! | `neon`, `dotprod`, `i8mm` | sums of products, by the instructions of each set |

mod batch;
mod dotprod;
mod i8mm;
mod neon;
mod panel_isa;

use super::KernelTable;

pub(super) static NEON: KernelTable = table!("neon", neon::matmul);
pub(super) static DOTPROD: KernelTable = table!("dotprod", dotprod::matmul);
pub(super) static I8MM: KernelTable = table!("i8mm", i8mm::matmul);
