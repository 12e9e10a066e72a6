//! The kernels of every stored type and instruction set, in one table per instruction set.
//!
//! | File | Duty |
//! |---|---|
//! | `table`, `choice` | the kernels of an instruction set, one for each type; which set has which |
//! | `panel` | what a kernel is given, and the arithmetic of all of them |
//! | `scalar` | that arithmetic element by element: the oracle |
//! | `form` | what a kernel knows of its type when it is compiled |
//! | `unpack` | what the vector kernels need of an instruction set; codes and scales in those terms |
//! | `learned` | codes and scales of the learned types in those terms |
//! | `grid_lookup` | codes of grid types by indices with other bits in them |
//! | `tokens` | activations, and what sums of products with them add to results |
//! | `product` | the vector kernel of a single token, compiled for every instruction set and type |
//! | `x86_64`, `aarch64`, `wasm32` | the instruction sets; the first two families have a `batch` for several tokens |
//! | `rows` | weights that are not in panels |

#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128")),
    allow(dead_code, reason = "what vector kernels share")
)]

/// A kernel for every type, in the order of `QuantType::ALL`, by the function `$matmul`, which is generic over the id of a type. There is
/// none for a float type. Names begin with `$prefix`.
macro_rules! kernels {
    ($prefix:literal, $matmul:ident) => {
        qsf_format::every_type!(kernels_of_rows! { $prefix, $matmul })
    };
}

/// [`kernels`] of the rows of the table of types.
macro_rules! kernels_of_rows {
    (
        { $prefix:literal, $matmul:ident }
        $($(#[$doc:meta])* $kind:ident $quant:ident = $id:literal, $name:literal, $encoding:expr;)*
    ) => {
        [$(kernel_of_row!($kind $quant $name, $prefix, $matmul)),*]
    };
}

/// The kernel of a row of the table of types.
macro_rules! kernel_of_row {
    (block $quant:ident $name:literal, $prefix:literal, $matmul:ident) => {
        Some($crate::kernels::table::kernel(
            qsf_format::QuantType::$quant,
            concat!($prefix, "-", $name),
            $matmul::<{ qsf_format::QuantType::$quant.id() }>,
        ))
    };
    (float $quant:ident $name:literal, $prefix:literal, $matmul:ident) => {
        None
    };
}

/// The table of an instruction set whose panel product is the function `$matmul`.
macro_rules! table {
    ($isa:literal, $matmul:ident) => {
        $crate::kernels::table::KernelTable {
            isa: $isa,
            int8: &kernels!($isa, $matmul),
            float_dot: concat!($isa, "-16-lanes"),
            wide: &[],
        }
    };
}

/// An array of four registers, element `$i` by `$value`. `array::map` is not always inlined, and then registers go through
/// memory.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128"))]
macro_rules! each {
    ($i:ident => $value:expr) => { each!($i, 0 1 2 3, $value) };
    ($i:ident, $($at:literal)*, $value:expr) => { [$({ let $i = $at; $value }),*] };
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod choice;
mod form;
mod grid_lookup;
mod learned;
mod panel;
mod product;
mod rows;
mod scalar;
mod table;
mod tokens;
mod unpack;
#[cfg(target_feature = "simd128")]
mod wasm32;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use panel::{Int8Kernel, WideKernel};
pub use panel::{PanelKernel, PanelOut, PanelTask, Rows};
pub use rows::{RowScratch, RowTask};
pub use table::{KernelEntry, KernelTable};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{AmxBf16, AmxBytes, Avx512Bytes};

#[cfg(test)]
mod tests;
