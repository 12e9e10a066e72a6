//! Kernels with the vector instructions of x86-64.

mod avx2;
mod avx512;
mod sse;

use qsf_format::QuantType;

use super::KernelTable;
use super::panel::{Int8Kernel, PanelFn};

/// The table of an instruction set whose panel product is the function `$matmul`, generic over the type's id.
macro_rules! table {
    ($isa:literal, $($matmul:ident)::+) => {
        KernelTable {
            isa: $isa,
            q2_sym: kernel(QuantType::Q2Sym, concat!($isa, "-2bit-sym"), $($matmul)::+::<{ QuantType::Q2Sym as u8 }>),
            q2: kernel(QuantType::Q2, concat!($isa, "-2bit"), $($matmul)::+::<{ QuantType::Q2 as u8 }>),
            q3: kernel(QuantType::Q3, concat!($isa, "-3bit"), $($matmul)::+::<{ QuantType::Q3 as u8 }>),
            q4: kernel(QuantType::Q4, concat!($isa, "-4bit"), $($matmul)::+::<{ QuantType::Q4 as u8 }>),
            ternary: kernel(QuantType::Ternary, concat!($isa, "-ternary"), $($matmul)::+::<{ QuantType::Ternary as u8 }>),
            q8: kernel(QuantType::Q8, concat!($isa, "-8bit"), $($matmul)::+::<{ QuantType::Q8 as u8 }>),
            float_dot: concat!($isa, "-16-lanes-2x3"),
        }
    };
}

pub(super) static SSE: KernelTable = table!("sse", sse::matmul);
pub(super) static AVX2: KernelTable = table!("avx2", avx2::matmul);
pub(super) static AVX_VNNI: KernelTable = table!("avxvnni", avx2::matmul_vnni);
pub(super) static AVX512: KernelTable = table!("avx512", avx512::matmul);

const fn kernel(quant: QuantType, name: &'static str, matmul: PanelFn) -> Int8Kernel {
    Int8Kernel { quant, name, matmul }
}
