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

use super::table::KernelTable;
use dotprod::matmul as dotprod_matmul;
use i8mm::matmul as i8mm_matmul;
use neon::matmul as neon_matmul;

pub(super) static NEON: KernelTable = table!("neon", neon_matmul);
pub(super) static DOTPROD: KernelTable = table!("dotprod", dotprod_matmul);
pub(super) static I8MM: KernelTable = table!("i8mm", i8mm_matmul);
