//! Codes, one per byte, into the bit order of SPEC.md section 6.

/// 2-bit codes: byte j holds codes j, j + n/4, j + n/2 and j + 3n/4 from its low bits up. `codes` has n = 4 *
/// `out.len()` entries, of which the two low bits count.
#[inline(always)]
pub(super) fn two_bit(codes: &[u8], out: &mut [u8]) {
    let quarter = out.len();
    let (a, rest) = codes.split_at(quarter);
    let (b, rest) = rest.split_at(quarter);
    let (c, d) = rest.split_at(quarter);
    for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *out = (a & 3) | ((b & 3) << 2) | ((c & 3) << 4) | (d << 6);
    }
}

/// 4-bit codes: byte j holds code j in its low and code j + n/2 in its high half; n = 2 * `out.len()`.
#[inline(always)]
pub(super) fn four_bit(codes: &[u8], out: &mut [u8]) {
    let (low, high) = codes.split_at(out.len());
    for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
        *out = (low & 15) | (high << 4);
    }
}

/// Bit `BIT` of every code: byte j holds those of codes 8j to 8j + 7; n = 8 * `out.len()`.
#[inline(always)]
pub(super) fn plane<const BIT: u32>(codes: &[u8], out: &mut [u8]) {
    for (out, eight) in out.iter_mut().zip(codes.as_chunks().0) {
        // Byte i's bit stands at 8i; times 2^(56 - 7i) it lands at 56 + i, and no other product reaches the top byte.
        let bits = (u64::from_le_bytes(*eight) >> BIT) & 0x0101_0101_0101_0101;
        *out = (bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_plane_comes_from_its_own_code() {
        for pattern in 0..=255u8 {
            let codes: Vec<u8> = (0..8).map(|i| 0b1011 | (((pattern >> i) & 1) << 2)).collect();
            let mut out = [0];
            plane::<2>(&codes, &mut out);
            assert_eq!(out[0], pattern);
        }
    }
}
