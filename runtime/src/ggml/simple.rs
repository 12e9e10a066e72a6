//! Types whose blocks have one scale: codes of 1 to 8 bits, and the ternary types.

use super::blocks::{half, part, u32_at};

/// Scale; a bit each, the first in the lowest: set for plus.
#[inline(always)]
pub(super) fn q1_0(block: &[u8; 18], out: &mut [f32; 128]) {
    let scale = half(block, 0);
    for (out, bits) in out.as_chunks_mut::<8>().0.iter_mut().zip(&block[2..]) {
        for (i, out) in out.iter_mut().enumerate() {
            let minus = (!u32::from(*bits) >> i) & 1;
            *out = f32::from_bits(scale.to_bits() ^ (minus << 31));
        }
    }
}

/// Scale; two bits each, the first in the lowest: the value plus one.
#[inline(always)]
pub(super) fn q2_0(block: &[u8; 18], out: &mut [f32; 64]) {
    let scale = half(block, 0);
    for (out, byte) in out.as_chunks_mut::<4>().0.iter_mut().zip(&block[2..]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = ((i32::from(*byte) >> (2 * i) & 3) - 1) as f32 * scale;
        }
    }
}

/// Gives `value` the low codes of 16 bytes, then the high ones, each with its number.
#[inline(always)]
pub(super) fn nibbles(bytes: &[u8; 16], out: &mut [f32; 32], value: impl Fn(usize, u8) -> f32) {
    let (low, high) = out.split_at_mut(16);
    for (i, (out, byte)) in low.iter_mut().zip(bytes).enumerate() {
        *out = value(i, byte & 15);
    }
    for (i, (out, byte)) in high.iter_mut().zip(bytes).enumerate() {
        *out = value(i + 16, byte >> 4);
    }
}

/// Scale, codes.
#[inline(always)]
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let scale = half(block, 0);
    nibbles(part(block, 2), out, |_, q| (i32::from(q) - 8) as f32 * scale);
}

/// Scale, offset, codes.
#[inline(always)]
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (scale, offset) = (half(block, 0), half(block, 2));
    nibbles(part(block, 4), out, |_, q| f32::from(q) * scale + offset);
}

/// Scale, fifth bits of the 32 codes, their lower four.
#[inline(always)]
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let (scale, fifth) = (half(block, 0), u32_at(block, 2));
    nibbles(part(block, 6), out, |i, q| (five_bits(q, fifth, i) - 16) as f32 * scale);
}

/// Scale, offset, fifth bits, lower four.
#[inline(always)]
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (scale, offset, fifth) = (half(block, 0), half(block, 2), u32_at(block, 4));
    nibbles(part(block, 8), out, |i, q| five_bits(q, fifth, i) as f32 * scale + offset);
}

#[inline(always)]
fn five_bits(low: u8, fifth: u32, i: usize) -> i32 {
    i32::from(low) | (((fifth >> i) & 1) << 4) as i32
}

/// Scale, signed codes.
#[inline(always)]
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    signed_bytes(half(block, 0), &block[2..], out);
}

/// Scale, the sum of the values (for dot products), signed codes.
#[inline(always)]
pub(super) fn q8_1(block: &[u8; 36], out: &mut [f32; 32]) {
    signed_bytes(half(block, 0), &block[4..], out);
}

#[inline(always)]
pub(super) fn signed_bytes(scale: f32, codes: &[u8], out: &mut [f32]) {
    for (out, code) in out.iter_mut().zip(codes) {
        *out = f32::from(*code as i8) * scale;
    }
}

/// 32 bytes of five ternary digits for values 32 apart, 16 of five for values 16 apart, 4 of four for values 4 apart;
/// scale.
#[inline(always)]
pub(super) fn tq1_0(block: &[u8; 54], out: &mut [f32; 256]) {
    let scale = half(block, 52);
    ternary_digits::<32>(part(block, 0), scale, &mut out[..160]);
    ternary_digits::<16>(part(block, 32), scale, &mut out[160..240]);
    ternary_digits::<4>(part(block, 48), scale, &mut out[240..]);
}

/// The bytes are fractions of 256 in base three: times 3^n, modulo 256, leaves the digits from n on, and times three
/// their first one comes out at the top.
#[inline(always)]
fn ternary_digits<const N: usize>(bytes: &[u8; N], scale: f32, out: &mut [f32]) {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    for (out, power) in out.as_chunks_mut::<N>().0.iter_mut().zip(POWERS) {
        for (out, byte) in out.iter_mut().zip(bytes) {
            let digit = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
            *out = f32::from(digit as i16 - 1) * scale;
        }
    }
}

/// Two halves of 32 bytes with two bits for each of four values 32 apart; scale.
#[inline(always)]
pub(super) fn tq2_0(block: &[u8; 66], out: &mut [f32; 256]) {
    let scale = half(block, 64);
    let (codes, _) = block.as_chunks::<32>();
    for (out, codes) in out.as_chunks_mut::<128>().0.iter_mut().zip(codes) {
        for (k, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (out, byte) in out.iter_mut().zip(codes) {
                *out = f32::from(((byte >> (2 * k)) & 3) as i8 - 1) * scale;
            }
        }
    }
}
