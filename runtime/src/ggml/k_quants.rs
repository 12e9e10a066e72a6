//! Blocks of 256 values in groups of 16 or 32, each with a quantized scale (and offset) under the block's own.

use super::blocks::{half, part};
use super::simple::signed_bytes;

/// Scales (low 4 bits) and offsets (high) of 16 groups, codes, scale of the scales, scale of the offsets.
///
/// Two bits of each of 32 bytes are 32 values in a row; then come the next two bits.
#[inline(always)]
pub(super) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scale, offset) = (half(block, 80), half(block, 82));
    let (halves, _) = part::<64>(block, 16).as_chunks::<32>();
    let (groups, _) = part::<16>(block, 0).as_chunks::<8>();
    for ((out, codes), groups) in out.as_chunks_mut::<128>().0.iter_mut().zip(halves).zip(groups) {
        for (g, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = scale * f32::from(groups[g] & 15);
            let offset = offset * f32::from(groups[g] >> 4);
            let codes: &[u8; 16] = part(codes, 16 * (g % 2));
            for (out, byte) in out.iter_mut().zip(codes) {
                *out = scale * f32::from((byte >> (2 * (g / 2))) & 3) - offset;
            }
        }
    }
}

/// High bits (bit k of 32 bytes: values 32 k on), low two bits as in [`q2_k`], scales in 6 bits, scale of the scales.
/// A high bit that is not set subtracts four.
#[inline(always)]
pub(super) fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let scale = half(block, 108);
    let high: &[u8; 32] = part(block, 0);
    let low: &[u8; 64] = part(block, 32);
    let packed: &[u8; 12] = part(block, 96);
    for (g, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        // Low four bits: 8 bytes, low halves first. High two: 4 bytes, lowest bits first.
        let code =
            ((packed[g % 8] >> (4 * (g / 8))) & 15) | (((packed[8 + g % 4] >> (2 * (g / 4))) & 3) << 4);
        let scale = scale * f32::from(code as i8 - 32);
        let low: &[u8; 16] = part(low, 32 * (g / 8) + 16 * (g % 2));
        let high: &[u8; 16] = part(high, 16 * (g % 2));
        for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
            let code = ((low >> (2 * (g / 2 % 4))) & 3) | (((high >> (g / 2)) & 1) << 2);
            *out = scale * f32::from(code as i8 - 4);
        }
    }
}

/// The 6-bit scale and offset of group `g` of 8. Those of the first four are the low bits of bytes 0 to 3 and 4 to 7,
/// whose two top bits belong to the other four; the rest of those is in bytes 8 to 11.
#[inline(always)]
fn six_bits(packed: &[u8; 12], g: usize) -> (f32, f32) {
    let (scale, offset) = if g < 4 {
        (packed[g] & 63, packed[g + 4] & 63)
    } else {
        (packed[g + 4] & 15 | packed[g - 4] >> 6 << 4, packed[g + 4] >> 4 | packed[g] >> 6 << 4)
    };
    (f32::from(scale), f32::from(offset))
}

/// Scale of the scales, of the offsets; 6-bit scales and offsets; codes: low halves of 32 bytes, then their high ones.
#[inline(always)]
pub(super) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (scale, offset) = (half(block, 0), half(block, 2));
    let packed = part(block, 4);
    for (g, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scales, offsets) = six_bits(packed, g);
        let (scale, offset) = (scale * scales, offset * offsets);
        let codes: &[u8; 32] = part(block, 16 + 32 * (g / 2));
        for (out, byte) in out.iter_mut().zip(codes) {
            *out = scale * f32::from((byte >> (4 * (g % 2))) & 15) - offset;
        }
    }
}

/// As [`q4_k`], with the fifth bits (bit k of 32 bytes: values 32 k on) before the codes.
#[inline(always)]
pub(super) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (scale, offset) = (half(block, 0), half(block, 2));
    let packed = part(block, 4);
    let high: &[u8; 32] = part(block, 16);
    for (g, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scales, offsets) = six_bits(packed, g);
        let (scale, offset) = (scale * scales, offset * offsets);
        let codes: &[u8; 32] = part(block, 48 + 32 * (g / 2));
        for ((out, low), high) in out.iter_mut().zip(codes).zip(high) {
            let code = ((low >> (4 * (g % 2))) & 15) | (((high >> g) & 1) << 4);
            *out = scale * f32::from(code) - offset;
        }
    }
}

/// Of all values the low four bits (for each half: low halves of 64 bytes, then high ones), the upper two (as in
/// [`q2_k`]); then scales in 8 bits, scale of the scales. Codes are 32 too much.
#[inline(always)]
pub(super) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let scale = half(block, 208);
    for (k, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (n, k) = (k / 4, k % 4);
        let low: &[u8; 32] = part(block, 64 * n + 32 * (k % 2));
        let high: &[u8; 32] = part(block, 128 + 32 * n);
        let scales: &[u8; 2] = part(block, 192 + 8 * n + 2 * k);
        let mut codes = [0; 32];
        for ((code, low), high) in codes.iter_mut().zip(low).zip(high) {
            *code = ((low >> (4 * (k / 2))) & 15) | (((high >> (2 * k)) & 3) << 4);
        }
        for ((out, codes), group) in
            out.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0).zip(scales)
        {
            let scale = scale * f32::from(*group as i8);
            for (out, code) in out.iter_mut().zip(codes) {
                *out = scale * f32::from(*code as i8 - 32);
            }
        }
    }
}

/// Scale (binary32), signed codes, sums of 16 codes (for dot products).
#[inline(always)]
pub(super) fn q8_k(block: &[u8; 292], out: &mut [f32; 256]) {
    signed_bytes(f32::from_le_bytes(*part(block, 0)), part::<256>(block, 4), out);
}
