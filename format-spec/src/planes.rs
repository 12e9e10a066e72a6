//! Codes and scales of a block of a plain row, taken out of its bytes (SPEC.md section 6).

use half::f16;

/// Bit i of a plane: bit i%8 of byte i/8.
pub(crate) fn bit(plane: &[u8], i: usize) -> u8 {
    (plane[i / 8] >> (i % 8)) & 1
}

/// 2-bit code i of a block of n: byte i % (n/4), bits 2k with k = i / (n/4).
pub(crate) fn code2(codes: &[u8], n: usize, i: usize) -> u8 {
    (codes[i % (n / 4)] >> (2 * (i / (n / 4)))) & 3
}

/// 4-bit code i of a block of n: byte i % (n/2), the low half for the first n/2 values.
pub(crate) fn code4(codes: &[u8], n: usize, i: usize) -> u8 {
    (codes[i % (n / 2)] >> (4 * (i / (n / 2)))) & 15
}

pub(crate) fn read_f16(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}
