//! Bits of codes moved between the order of plain rows and that of panels, many at a time.

use super::parts::Word;

/// Bits of eight quads of one row, from 4j + c (code c of quad j) to 8c + j: then one shift puts those of a quad into
/// the same place of four bytes.
#[inline(always)]
pub(super) fn spread_bits(word: u32) -> u32 {
    // The number of a bit has five bits itself. Each step swaps two of these for all: jjjcc becomes ccjjj.
    let word = swap_bits(word, 14, 0x0000_CCCC);
    let word = swap_bits(word, 7, 0x00AA_00AA);
    let word = swap_bits(word, 2, 0x0C0C_0C0C);
    swap_bits(word, 1, 0x2222_2222)
}

/// Brings bits back to where they were before [`spread_bits`].
#[inline(always)]
pub(super) fn gather_bits(word: u32) -> u32 {
    let word = swap_bits(word, 1, 0x2222_2222);
    let word = swap_bits(word, 2, 0x0C0C_0C0C);
    let word = swap_bits(word, 7, 0x00AA_00AA);
    swap_bits(word, 14, 0x0000_CCCC)
}

/// Swaps the bits in `mask` with those `distance` above.
#[inline(always)]
fn swap_bits(word: u32, distance: u32, mask: u32) -> u32 {
    let differ = (word ^ (word >> distance)) & mask;
    word ^ differ ^ (differ << distance)
}

/// The 2-bit codes t + 1 that the planes of a block say, in words of this row.
#[inline(always)]
pub(super) fn codes_of_sign_and_zero(planes: &[u8], mut put: impl FnMut(usize, Word)) {
    // Byte 8i + b of the codes holds those of elements k * n/4 + 8i + b, k = 0 to 3: of each k, the planes have those of all b
    // in one byte. Low and high bits of the codes of all k as rows of an 8 x 8 matrix of bits: its columns are the bytes sought.
    let quarter = planes.len() / 8;
    let (sign, zero) = planes.split_at(planes.len() / 2);
    let sign: [&[u8]; 4] = std::array::from_fn(|k| &sign[k * quarter..][..quarter]);
    let zero: [&[u8]; 4] = std::array::from_fn(|k| &zero[k * quarter..][..quarter]);
    for i in 0..quarter {
        let mut rows = 0;
        for k in 0..4 {
            // 1 where the zero bit is set, whatever the sign; 2 where neither is.
            let (low, high) = (zero[k][i], !(zero[k][i] | sign[k][i]));
            rows |= (u64::from(low) | u64::from(high) << 8) << (16 * k);
        }
        let codes = transpose_bits(rows);
        put(2 * i, (codes as u32).to_le_bytes());
        put(2 * i + 1, ((codes >> 32) as u32).to_le_bytes());
    }
}

/// Bit 8r + c to 8c + r.
#[inline(always)]
fn transpose_bits(bits: u64) -> u64 {
    let step = |bits: u64, distance: u32, mask: u64| {
        let differ = (bits ^ (bits >> distance)) & mask;
        bits ^ differ ^ (differ << distance)
    };
    let bits = step(bits, 7, 0x00AA_00AA_00AA_00AA);
    let bits = step(bits, 14, 0x0000_CCCC_0000_CCCC);
    step(bits, 28, 0x0000_0000_F0F0_F0F0)
}
