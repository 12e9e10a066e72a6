//! Codes that are points of a grid in 4 or 8 dimensions (IQ1, IQ2, IQ3), or entries of a table of 16 (IQ4).

use super::blocks::{half, part, u16_at, u32_at};
use super::simple::nibbles;
use super::tables::{FOUR_BIT_LEVELS, IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, SIGNS};
use qsf_cpu::f16_to_f32;

/// Eight values of a grid, a sign bit for each, a scale for all.
#[inline(always)]
fn signed_point(scale: f32, point: [u8; 8], signs: u8, out: &mut [f32; 8]) {
    for (i, (out, level)) in out.iter_mut().zip(point).enumerate() {
        let minus = (u32::from(signs) >> i & 1) << 31;
        *out = f32::from_bits((scale * f32::from(level)).to_bits() ^ minus);
    }
}

/// Two points of four dimensions as one of eight.
#[inline(always)]
fn pair(low: u32, high: u32) -> [u8; 8] {
    (u64::from(low) | u64::from(high) << 32).to_le_bytes()
}

/// The scale of a group of IQ2 types from its 4 bits.
#[inline(always)]
fn quarters(scale: f32, code: u8) -> f32 {
    scale * (0.5 + f32::from(code)) * 0.25
}

/// Scale; for each 32 values four bytes of points, then four times 7 bits of signs and 4 bits of scale.
#[inline(always)]
pub(super) fn iq2_xxs(block: &[u8; 66], out: &mut [f32; 256]) {
    let scale = half(block, 0);
    for (out, group) in out.as_chunks_mut::<32>().0.iter_mut().zip(part::<64>(block, 2).as_chunks::<8>().0) {
        let signs = u32_at(group, 4);
        let scale = quarters(scale, (signs >> 28) as u8);
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let point = IQ2_XXS[usize::from(group[i])].to_le_bytes();
            signed_point(scale, point, SIGNS[(signs >> (7 * i)) as usize & 127], out);
        }
    }
}

/// Scale; 9 bits of point and 7 of signs for each 8 values; 4 bits of scale for each 16.
#[inline(always)]
pub(super) fn iq2_xs(block: &[u8; 74], out: &mut [f32; 256]) {
    let scale = half(block, 0);
    let scales: &[u8; 8] = part(block, 66);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let code = usize::from(u16_at(block, 2 + 2 * i));
        let scale = quarters(scale, (scales[i / 4] >> (4 * (i / 2 % 2))) & 15);
        signed_point(scale, IQ2_XS[code & 511].to_le_bytes(), SIGNS[code >> 9], out);
    }
}

/// Scale; low bytes of the points, signs, upper two bits of the points, 4 bits of scale for each 16.
#[inline(always)]
pub(super) fn iq2_s(block: &[u8; 82], out: &mut [f32; 256]) {
    let scale = half(block, 0);
    let low: &[u8; 32] = part(block, 2);
    let signs: &[u8; 32] = part(block, 34);
    let high: &[u8; 8] = part(block, 66);
    let scales: &[u8; 8] = part(block, 74);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let point = usize::from(low[i]) | usize::from((high[i / 4] >> (2 * (i % 4))) & 3) << 8;
        let scale = quarters(scale, (scales[i / 4] >> (4 * (i / 2 % 2))) & 15);
        signed_point(scale, IQ2_S[point].to_le_bytes(), signs[i], out);
    }
}

/// Scale; a byte of point for each 4 values; for each 32 four times 7 bits of signs and 4 bits of scale.
#[inline(always)]
pub(super) fn iq3_xxs(block: &[u8; 98], out: &mut [f32; 256]) {
    let scale = half(block, 0);
    for (g, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let points: &[u8; 8] = part(block, 2 + 8 * g);
        let signs = u32_at(block, 66 + 4 * g);
        let scale = scale * (0.5 + (signs >> 28) as f32) * 0.5;
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let point = pair(IQ3_XXS[usize::from(points[2 * i])], IQ3_XXS[usize::from(points[2 * i + 1])]);
            signed_point(scale, point, SIGNS[(signs >> (7 * i)) as usize & 127], out);
        }
    }
}

/// Scale; low bytes of the points, their ninth bits, signs, 4 bits of scale for each 32.
#[inline(always)]
pub(super) fn iq3_s(block: &[u8; 110], out: &mut [f32; 256]) {
    let scale = half(block, 0);
    let low: &[u8; 64] = part(block, 2);
    let high: &[u8; 8] = part(block, 66);
    let signs: &[u8; 32] = part(block, 74);
    let scales: &[u8; 4] = part(block, 106);
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let code = (scales[i / 8] >> (4 * (i / 4 % 2))) & 15;
        let scale = scale * f32::from(1 + 2 * code);
        let ninth = u32::from(high[i / 4]) >> (2 * (i % 4));
        let first = usize::from(low[2 * i]) | (ninth as usize & 1) << 8;
        let second = usize::from(low[2 * i + 1]) | (ninth as usize & 2) << 7;
        signed_point(scale, pair(IQ3_S[first], IQ3_S[second]), signs[i], out);
    }
}

/// Eight values of -1, 0 or 1, shifted by an eighth up or down.
#[inline(always)]
fn shifted_point(scale: f32, point: usize, down: bool, out: &mut [f32; 8]) {
    let shift = if down { -0.125 } else { 0.125 };
    for (out, level) in out.iter_mut().zip(IQ1[point].to_le_bytes()) {
        *out = scale * (f32::from(level as i8) + shift);
    }
}

/// Scale; low bytes of the points; for each 32 values four times 3 upper bits, 3 bits of scale, direction of the shift.
#[inline(always)]
pub(super) fn iq1_s(block: &[u8; 50], out: &mut [f32; 256]) {
    let scale = half(block, 0);
    let low: &[u8; 32] = part(block, 2);
    for (g, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let high = usize::from(u16_at(block, 34 + 2 * g));
        let scale = scale * (2 * ((high >> 12) & 7) + 1) as f32;
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let point = usize::from(low[4 * g + i]) | ((high >> (3 * i)) & 7) << 8;
            shifted_point(scale, point, high & 0x8000 != 0, out);
        }
    }
}

/// Low bytes of the points; 3 upper bits and the direction of the shift for each 8 values; four times four 3-bit
/// scales for 16 values and, on top, four bits of the block's scale.
#[inline(always)]
pub(super) fn iq1_m(block: &[u8; 56], out: &mut [f32; 256]) {
    let low: &[u8; 32] = part(block, 0);
    let high: &[u8; 16] = part(block, 32);
    let scales = |i: usize| u16_at(block, 48 + 2 * i);
    let top = |i: usize| scales(i) >> 12 << (4 * i);
    let scale = f16_to_f32(top(0) | top(1) | top(2) | top(3));
    for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let high = usize::from(high[i / 2] >> (4 * (i % 2)));
        let code = (scales(i / 8) >> (3 * (i / 2 % 4))) & 7;
        let scale = scale * f32::from(2 * code + 1);
        shifted_point(scale, usize::from(low[i]) | (high & 7) << 8, high & 8 != 0, out);
    }
}

/// Scale, codes.
#[inline(always)]
pub(super) fn iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    let scale = half(block, 0);
    nibbles(part(block, 2), out, |_, q| scale * level(q));
}

/// Scale; upper two bits of the scales of 32 values, lower four; codes.
#[inline(always)]
pub(super) fn iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let scale = half(block, 0);
    let high = u16_at(block, 2);
    let low: &[u8; 4] = part(block, 4);
    for (g, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let code = ((low[g / 2] >> (4 * (g % 2))) & 15) | (((high >> (2 * g)) & 3) << 4) as u8;
        let scale = scale * f32::from(code as i8 - 32);
        nibbles(part(block, 8 + 16 * g), out, |_, q| scale * level(q));
    }
}

#[inline(always)]
fn level(code: u8) -> f32 {
    FOUR_BIT_LEVELS[usize::from(code & 15)]
}
