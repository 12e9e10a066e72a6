//! Kernels with the vector instructions of x86-64.

mod avx2;
mod unpack;

use qsf_format::QuantType;

use super::KernelTable;
use super::int8::{Int8Fn, Int8Kernel};

pub(super) static AVX2: KernelTable = KernelTable {
    isa: "avx2",
    q2_sym: kernel(QuantType::Q2Sym, "avx2-2bit-sym", avx2::matmul::<{ QuantType::Q2Sym as u8 }>),
    q2: kernel(QuantType::Q2, "avx2-2bit", avx2::matmul::<{ QuantType::Q2 as u8 }>),
    q3: kernel(QuantType::Q3, "avx2-3bit", avx2::matmul::<{ QuantType::Q3 as u8 }>),
    q4: kernel(QuantType::Q4, "avx2-4bit", avx2::matmul::<{ QuantType::Q4 as u8 }>),
    ternary: kernel(QuantType::Ternary, "avx2-ternary", avx2::matmul::<{ QuantType::Ternary as u8 }>),
    q8: kernel(QuantType::Q8, "avx2-8bit", avx2::matmul::<{ QuantType::Q8 as u8 }>),
    float_dot: "avx2-16-lanes-2x3",
};

const fn kernel(quant: QuantType, name: &'static str, matmul: Int8Fn) -> Int8Kernel {
    Int8Kernel { quant, name, matmul }
}
