//! Blocks of 4-bit floats (E2M1) under 8-bit scales.
//!
//! E2M1 and E8M0: OCP Microscaling Formats v1.0, sections 5.3.3 and 5.4.1. Values are doubled, so that they are whole,
//! and scales halved.

use super::blocks::part;
use super::simple::nibbles;

/// Scale (E8M0), codes.
#[inline(always)]
pub(super) fn mxfp4(block: &[u8; 17], out: &mut [f32; 32]) {
    let scale = half_e8m0(block[0]);
    nibbles(part(block, 1), out, |_, q| f32::from(doubled_e2m1(q)) * scale);
}

/// Scales (UE4M3) of four groups, then the codes of 16 values in 8 bytes: low halves first.
#[inline(always)]
pub(super) fn nvfp4(block: &[u8; 36], out: &mut [f32; 64]) {
    let (groups, _) = block[4..].as_chunks::<8>();
    for ((out, codes), scale) in out.as_chunks_mut::<16>().0.iter_mut().zip(groups).zip(part::<4>(block, 0)) {
        let scale = half_ue4m3(*scale);
        let (low, high) = out.split_at_mut(8);
        for ((low, high), byte) in low.iter_mut().zip(high).zip(codes) {
            *low = f32::from(doubled_e2m1(byte & 15)) * scale;
            *high = f32::from(doubled_e2m1(byte >> 4)) * scale;
        }
    }
}

/// Twice the value of a code of sign, two bits of exponent, one of mantissa: 0, 1, 2, 3, 4, 6, 8, 12 and the negatives.
/// Both zeros are plus zero, as in llama.cpp. Sums instead of a table, for a table is no vector code: the steps of
/// the values double behind 4 and again behind 6.
#[inline(always)]
fn doubled_e2m1(code: u8) -> i8 {
    let magnitude = code & 7;
    let value = (magnitude + magnitude.saturating_sub(4) + 2 * magnitude.saturating_sub(6)) as i8;
    if code & 8 == 0 { value } else { -value }
}

/// Half of 2^(code - 127). 255, which the standard has for NaN, is 2^127 in llama.cpp.
#[inline(always)]
fn half_e8m0(code: u8) -> f32 {
    // The exponent of the result is code - 1; where that is not positive the number is subnormal.
    let bits = if code < 2 { 0x0020_0000 << code } else { (u32::from(code) - 1) << 23 };
    f32::from_bits(bits)
}

/// Half of an unsigned float of four bits of exponent (bias 7) and three of mantissa. The top bit is not looked at,
/// except that 0x7F, NaN in other places, is zero.
#[inline(always)]
fn half_ue4m3(code: u8) -> f32 {
    if code == 0x7F {
        return 0.0;
    }
    let (exponent, mantissa) = (u32::from(code >> 3) & 15, u32::from(code & 7));
    if exponent == 0 {
        // 2^-9 for the lowest bit, halved.
        return mantissa as f32 * (1.0 / 1024.0);
    }
    f32::from_bits(((exponent + 127 - 7 - 1) << 23) | (mantissa << 20))
}
