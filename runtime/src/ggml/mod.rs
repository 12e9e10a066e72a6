//! The tensor types of ggml, as GGUF files have them, and their values as floats.
//!
//! | File | Duty |
//! |---|---|
//! | `types` | ids, names, geometry |
//! | `blocks` | rows as blocks, reading parts of a block |
//! | `simple` | types with one scale for a block of 32 to 128 codes; ternary types |
//! | `float4` | types of 4-bit floats: MXFP4, NVFP4 |
//! | `k_quants` | blocks of 256 with quantized scales: `Q2_K` to `Q8_K` |
//! | `i_quants` | codes that are points of a grid (`IQ1`, `IQ2`, `IQ3`) or entries of a table (`IQ4`) |
//! | `tables` | the grids |
//!
//! Layouts and values are those of llama.cpp (`block_*` in ggml-common.h, `dequantize_row_*` in ggml-quants.c), to
//! the bit: every product and sum is rounded in the same place. All work is plain Rust, compiled for each instruction
//! set; fixed-size arrays and loops without branches let the compiler make vectors of it.

mod blocks;
mod float4;
mod i_quants;
mod k_quants;
mod simple;
mod tables;
#[cfg(test)]
mod tests;
mod types;

use qsf_format::{BUILT_IN, BlockSize, QuantType};

use self::blocks::{blocks, numbers};
use qsf_cpu::Isa;

pub use tables::{FOUR_BIT_CODES, points};
pub use types::GgmlType;

/// Decodes one row of `out.len()` values. Numbers that binary32 lacks are rounded to the nearest, ties to even.
///
/// # Panics
/// When `bytes` and `out` are not the same whole number of blocks of [`GgmlType::block_bytes`] and
/// [`GgmlType::block_len`]. No content of `bytes` panics.
pub fn decode_row(isa: Isa, ty: GgmlType, bytes: &[u8], out: &mut [f32]) {
    let count = out.len() / ty.block_len();
    let whole =
        out.len().is_multiple_of(ty.block_len()) && Some(bytes.len()) == count.checked_mul(ty.block_bytes());
    assert!(whole, "{} bytes and {} values are no whole blocks of {ty}", bytes.len(), out.len());
    // A function passed by name is called through one that is not compiled for the instruction set. A closure is not.
    macro_rules! block {
        ($decode:path) => {
            blocks(
                isa,
                bytes,
                out,
                #[inline(always)]
                |block, out| $decode(block, out),
            )
        };
    }
    match ty {
        GgmlType::F32 => numbers(isa, bytes, out, f32::from_le_bytes),
        // There is an instruction for it.
        GgmlType::F16 => qsf_cpu::decode_row(isa, QuantType::F16, BlockSize::B64, &BUILT_IN, bytes, out),
        GgmlType::BF16 => numbers(isa, bytes, out, |upper| qsf_cpu::bf16_to_f32(u16::from_le_bytes(upper))),
        GgmlType::F64 => numbers(isa, bytes, out, |v| f64::from_le_bytes(v) as f32),
        GgmlType::I8 => numbers(isa, bytes, out, |v| f32::from(i8::from_le_bytes(v))),
        GgmlType::I16 => numbers(isa, bytes, out, |v| f32::from(i16::from_le_bytes(v))),
        GgmlType::I32 => numbers(isa, bytes, out, |v| i32::from_le_bytes(v) as f32),
        GgmlType::I64 => numbers(isa, bytes, out, |v| i64::from_le_bytes(v) as f32),
        GgmlType::Q1_0 => block!(simple::q1_0),
        GgmlType::Q2_0 => block!(simple::q2_0),
        GgmlType::Q4_0 => block!(simple::q4_0),
        GgmlType::Q4_1 => block!(simple::q4_1),
        GgmlType::Q5_0 => block!(simple::q5_0),
        GgmlType::Q5_1 => block!(simple::q5_1),
        GgmlType::Q8_0 => block!(simple::q8_0),
        GgmlType::Q8_1 => block!(simple::q8_1),
        GgmlType::TQ1_0 => block!(simple::tq1_0),
        GgmlType::TQ2_0 => block!(simple::tq2_0),
        GgmlType::MXFP4 => block!(float4::mxfp4),
        GgmlType::NVFP4 => block!(float4::nvfp4),
        GgmlType::Q2_K => block!(k_quants::q2_k),
        GgmlType::Q3_K => block!(k_quants::q3_k),
        GgmlType::Q4_K => block!(k_quants::q4_k),
        GgmlType::Q5_K => block!(k_quants::q5_k),
        GgmlType::Q6_K => block!(k_quants::q6_k),
        GgmlType::Q8_K => block!(k_quants::q8_k),
        GgmlType::IQ1_S => block!(i_quants::iq1_s),
        GgmlType::IQ1_M => block!(i_quants::iq1_m),
        GgmlType::IQ2_XXS => block!(i_quants::iq2_xxs),
        GgmlType::IQ2_XS => block!(i_quants::iq2_xs),
        GgmlType::IQ2_S => block!(i_quants::iq2_s),
        GgmlType::IQ3_XXS => block!(i_quants::iq3_xxs),
        GgmlType::IQ3_S => block!(i_quants::iq3_s),
        GgmlType::IQ4_NL => block!(i_quants::iq4_nl),
        GgmlType::IQ4_XS => block!(i_quants::iq4_xs),
    }
}
