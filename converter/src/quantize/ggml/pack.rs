//! Scales and codes as the bytes of ggml's blocks: the inverse of `qsf_runtime::ggml`, where each layout is described.

use half::f16;
use qsf_runtime::ggml::GgmlType;

/// What one block of a row stores.
pub(super) struct BlockParts<'a> {
    /// Binary16 numbers of the whole block: scale and offset.
    pub unit: f32,
    pub min_unit: f32,
    /// Whole numbers of its groups.
    pub scales: &'a [i32],
    pub mins: &'a [i32],
    /// A code for each column, from 0 on.
    pub codes: &'a [u8],
}

/// Writes a block; `out` has exactly its bytes, all zero.
pub(super) fn pack(ty: GgmlType, parts: &BlockParts<'_>, out: &mut [u8]) {
    let BlockParts { unit, min_unit, scales, mins, codes } = *parts;
    match ty {
        GgmlType::Q4_0 | GgmlType::IQ4_NL => {
            half_at(out, 0, unit);
            nibbles(codes, &mut out[2..]);
        }
        GgmlType::Q4_1 => {
            half_at(out, 0, unit);
            half_at(out, 2, min_unit);
            nibbles(codes, &mut out[4..]);
        }
        GgmlType::Q5_0 => {
            half_at(out, 0, unit);
            fifth_bits(codes, &mut out[2..6]);
            nibbles(codes, &mut out[6..]);
        }
        GgmlType::Q5_1 => {
            half_at(out, 0, unit);
            half_at(out, 2, min_unit);
            fifth_bits(codes, &mut out[4..8]);
            nibbles(codes, &mut out[8..]);
        }
        GgmlType::Q8_0 => {
            half_at(out, 0, unit);
            // Codes count from -127.
            for (out, code) in out[2..].iter_mut().zip(codes) {
                *out = code.wrapping_sub(127);
            }
        }
        GgmlType::IQ4_XS => {
            half_at(out, 0, unit);
            for (g, scale) in scales.iter().enumerate() {
                let code = (scale + 32) as u8;
                out[4 + g / 2] |= (code & 15) << (4 * (g % 2));
                out[2 + g / 4] |= (code >> 4) << (2 * (g % 4));
                nibbles(&codes[32 * g..32 * g + 32], &mut out[8 + 16 * g..24 + 16 * g]);
            }
        }
        GgmlType::Q2_K => {
            for (out, (scale, min)) in out.iter_mut().zip(scales.iter().zip(mins)) {
                *out = (*scale as u8 & 15) | (*min as u8) << 4;
            }
            two_bits(codes, &mut out[16..80]);
            half_at(out, 80, unit);
            half_at(out, 82, min_unit);
        }
        GgmlType::Q3_K => {
            for (i, code) in codes.iter().enumerate() {
                out[i % 32] |= (code >> 2 & 1) << (i / 32);
            }
            two_bits(codes, &mut out[32..96]);
            for (g, scale) in scales.iter().enumerate() {
                let code = (scale + 32) as u8;
                out[96 + g % 8] |= (code & 15) << (4 * (g / 8));
                out[104 + g % 4] |= (code >> 4 & 3) << (2 * (g / 4));
            }
            half_at(out, 108, unit);
        }
        GgmlType::Q4_K => {
            half_at(out, 0, unit);
            half_at(out, 2, min_unit);
            six_bits(scales, mins, &mut out[4..16]);
            low_nibbles(codes, &mut out[16..]);
        }
        GgmlType::Q5_K => {
            half_at(out, 0, unit);
            half_at(out, 2, min_unit);
            six_bits(scales, mins, &mut out[4..16]);
            for (i, code) in codes.iter().enumerate() {
                out[16 + i % 32] |= (code >> 4 & 1) << (i / 32);
            }
            low_nibbles(codes, &mut out[48..]);
        }
        GgmlType::Q6_K => {
            for (i, code) in codes.iter().enumerate() {
                let (n, k, i) = (i / 128, i / 32 % 4, i % 32);
                out[64 * n + 32 * (k % 2) + i] |= (code & 15) << (4 * (k / 2));
                out[128 + 32 * n + i] |= (code >> 4) << (2 * k);
            }
            for (out, scale) in out[192..].iter_mut().zip(scales) {
                *out = *scale as i8 as u8;
            }
            half_at(out, 208, unit);
        }
        GgmlType::TQ1_0 => {
            digits::<32>(&codes[..160], &mut out[..32]);
            digits::<16>(&codes[160..240], &mut out[32..48]);
            digits::<4>(&codes[240..], &mut out[48..52]);
            half_at(out, 52, unit);
        }
        GgmlType::TQ2_0 => {
            two_bits(codes, &mut out[..64]);
            half_at(out, 64, unit);
        }
        GgmlType::MXFP4 => {
            // 2^(code - 128); where the scale is 0, so are all levels.
            out[0] = if unit > 0.0 { ((unit.to_bits() >> 23) + 1) as u8 } else { 0 };
            let floats: [u8; 32] = std::array::from_fn(|i| FLOATS[usize::from(codes[i].min(14))]);
            nibbles(&floats, &mut out[1..]);
        }
        // `shape_of` has no other.
        _ => {}
    }
}

/// The codes of 4-bit floats by their places in ascending order.
const FLOATS: [u8; 15] = [15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7];

/// Digits of base three, five to a byte `N` apart, as the fraction of 256 that a reader multiplies up.
fn digits<const N: usize>(codes: &[u8], out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        // Where there are only four, the fifth is 0.
        let digit = |k: usize| codes.get(i + k * N).map_or(0, |digit| u32::from(*digit));
        let number = (0..5).fold(0, |number, k| 3 * number + digit(k));
        *out = (number * 256).div_ceil(243) as u8;
    }
}

fn half_at(out: &mut [u8], at: usize, value: f32) {
    out[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

/// The first 16 codes of 32 in low halves, the others in high ones.
fn nibbles(codes: &[u8], out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate().take(16) {
        *out = (codes[i] & 15) | (codes[i + 16] & 15) << 4;
    }
}

/// The fifth bits of 32 codes.
fn fifth_bits(codes: &[u8], out: &mut [u8]) {
    for (i, code) in codes.iter().enumerate() {
        out[i / 8] |= (code >> 4 & 1) << (i % 8);
    }
}

/// Two bits of 256 codes: of each 128, four runs of 32 in two bits each of 32 bytes.
fn two_bits(codes: &[u8], out: &mut [u8]) {
    for (i, code) in codes.iter().enumerate() {
        out[32 * (i / 128) + i % 32] |= (code & 3) << (2 * (i / 32 % 4));
    }
}

/// The low four bits of 256 codes: of each 64, the first 32 in low halves.
fn low_nibbles(codes: &[u8], out: &mut [u8]) {
    for (i, code) in codes.iter().enumerate() {
        out[32 * (i / 64) + i % 32] |= (code & 15) << (4 * (i / 32 % 2));
    }
}

/// Scales and offsets of eight groups in six bits each.
fn six_bits(scales: &[i32], mins: &[i32], out: &mut [u8]) {
    for (g, (scale, min)) in scales.iter().zip(mins).enumerate() {
        let (scale, min) = (*scale as u8, *min as u8);
        if g < 4 {
            out[g] |= scale & 63;
            out[g + 4] |= min & 63;
        } else {
            out[g + 4] |= (scale & 15) | (min & 15) << 4;
            out[g - 4] |= scale >> 4 << 6;
            out[g] |= min >> 4 << 6;
        }
    }
}
