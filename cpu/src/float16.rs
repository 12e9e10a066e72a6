//! Floats of 16 bits as f32.

/// An IEEE binary16 as f32, exactly; NaNs become quiet ones. No branches: eight of them become one vector.
#[inline(always)]
pub fn f16_to_f32(half: u16) -> f32 {
    const INFINITY: u32 = 0x7C00 << 13;
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7FFF) << 13;
    // The exponent's bias is 127 instead of 15.
    let normal = magnitude + (112 << 23);
    // With an exponent of one the bits of a subnormal are 2^-14 too much.
    let subnormal = f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23);
    let quiet = if magnitude > INFINITY { 1 << 22 } else { 0 };
    let special = magnitude | 0x7F80_0000 | quiet;
    let bits = if magnitude < 1 << 23 { subnormal.to_bits() } else { normal };
    let bits = if magnitude >= INFINITY { special } else { bits };
    f32::from_bits(bits | sign)
}

/// The upper half of an f32.
#[inline(always)]
pub fn bf16_to_f32(upper: u16) -> f32 {
    f32::from_bits(u32::from(upper) << 16)
}
