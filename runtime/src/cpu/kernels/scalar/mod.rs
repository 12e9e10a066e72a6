//! Kernels in plain Rust: for every processor, and the oracle that the others are tested against.

mod int8;

use qsf_format::QuantType;

use super::KernelTable;
use super::int8::{Int8Fn, Int8Kernel};

pub(super) static SCALAR: KernelTable = KernelTable {
    isa: "scalar",
    q2_sym: kernel(QuantType::Q2Sym, "scalar-2bit-sym", int8::matmul::<{ QuantType::Q2Sym as u8 }>),
    q2: kernel(QuantType::Q2, "scalar-2bit", int8::matmul::<{ QuantType::Q2 as u8 }>),
    q3: kernel(QuantType::Q3, "scalar-3bit", int8::matmul::<{ QuantType::Q3 as u8 }>),
    q4: kernel(QuantType::Q4, "scalar-4bit", int8::matmul::<{ QuantType::Q4 as u8 }>),
    ternary: kernel(QuantType::Ternary, "scalar-ternary", int8::matmul::<{ QuantType::Ternary as u8 }>),
    q8: kernel(QuantType::Q8, "scalar-8bit", int8::matmul::<{ QuantType::Q8 as u8 }>),
    float_dot: "scalar-16-lanes",
};

const fn kernel(quant: QuantType, name: &'static str, matmul: Int8Fn) -> Int8Kernel {
    Int8Kernel { quant, name, matmul }
}
