//! One scalar decode per block type and layout (SPEC.md section 6). This is the definition that every kernel is tested against.
//!
//! The formulas have one rounding at most: an f16 times a code of at most 8 bits is exact in f32, so that only the sum of
//! `scale * q + min` rounds, fused or not.

use half::f16;

use crate::code_tables::CodeTables;
use crate::decode_learned::{decode_learned_panel_row, decode_learned_row};
use crate::layout::PANEL_ROWS;
use crate::panels::{BlockParts, panel_bytes, superblock_bytes};
use crate::planes::{bit, code2, code4, read_f16};
use crate::quant_type::{BlockSize, QuantType};

/// Decodes one row: `bytes` as `QuantType::row_bytes` says for `out.len()` columns. Padding codes of the last block
/// are not looked at. Only learned types look at `tables`.
///
/// # Panics
/// When `bytes` is shorter than the row; callers check sizes when they open a tensor.
pub fn decode_row(quant: QuantType, block: BlockSize, tables: &CodeTables, bytes: &[u8], out: &mut [f32]) {
    match quant {
        _ if quant.is_learned() => decode_learned_row(quant, tables, bytes, out),
        QuantType::F16 => decode_floats::<2>(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
        QuantType::Bf16 => {
            decode_floats::<2>(bytes, out, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16));
        }
        QuantType::F32 => decode_floats::<4>(bytes, out, f32::from_le_bytes),
        _ => {
            let blocks = bytes.chunks_exact(quant.block_bytes(block));
            assert!(blocks.len() * block.get() >= out.len(), "row shorter than its columns");
            for (bytes, out) in blocks.zip(out.chunks_mut(block.get())) {
                decode_block(quant, block, bytes, out);
            }
        }
    }
}

/// Decodes the first `out.len()` values of one block of a block type.
///
/// # Panics
/// When `bytes` is not one block, when `out` is longer than the block, or for a float or learned type.
pub fn decode_block(quant: QuantType, block: BlockSize, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(bytes.len(), quant.block_bytes(block), "not one block");
    let n = block.get();
    assert!(out.len() <= n, "more values than a block holds");
    let first = read_f16(bytes, 0);
    match quant {
        QuantType::Q2Sym => {
            let codes = &bytes[2..];
            for (i, v) in out.iter_mut().enumerate() {
                *v = first * f32::from(2 * code2(codes, n, i) as i8 - 3);
            }
        }
        QuantType::Q2 => {
            let (min, codes) = (read_f16(bytes, 2), &bytes[4..]);
            for (i, v) in out.iter_mut().enumerate() {
                *v = first * f32::from(code2(codes, n, i)) + min;
            }
        }
        QuantType::Q3 => {
            let min = read_f16(bytes, 2);
            let (low, high) = bytes[4..].split_at(n / 4);
            for (i, v) in out.iter_mut().enumerate() {
                let q = code2(low, n, i) | (bit(high, i) << 2);
                *v = first * f32::from(q) + min;
            }
        }
        QuantType::Q4 => {
            let (min, codes) = (read_f16(bytes, 2), &bytes[4..]);
            for (i, v) in out.iter_mut().enumerate() {
                *v = first * f32::from(code4(codes, n, i)) + min;
            }
        }
        QuantType::Ternary => {
            let (sign, zero) = bytes[2..].split_at(n / 8);
            for (i, v) in out.iter_mut().enumerate() {
                let code = (1 - bit(zero, i) as i8) * (1 - 2 * bit(sign, i) as i8);
                *v = first * f32::from(code);
            }
        }
        QuantType::Q8 => {
            for (v, &q) in out.iter_mut().zip(&bytes[2..]) {
                *v = first * f32::from(q as i8);
            }
        }
        _ => panic!("{quant} has no blocks of its own"),
    }
}

/// Decodes row `row` of a panel of sixteen rows (SPEC.md section 6.1) of `out.len()` columns.
///
/// # Panics
/// When `panel` is not the panel of so many columns, `row` is not below 16, or for a float type.
pub fn decode_panel_row(
    quant: QuantType,
    block: BlockSize,
    tables: &CodeTables,
    panel: &[u8],
    row: usize,
    out: &mut [f32],
) {
    let n = quant.block_size(block).get();
    assert_eq!(panel.len(), panel_bytes(quant, block, out.len().div_ceil(n)), "not the panel of the columns");
    assert!(row < PANEL_ROWS, "row {row} of a panel");
    if quant.is_learned() {
        return decode_learned_panel_row(quant, tables, panel, row, out);
    }
    let parts = BlockParts::of(quant, block);
    for (bytes, out) in panel.chunks_exact(superblock_bytes(quant, block)).zip(out.chunks_mut(n)) {
        let field = |k: usize| read_f16(bytes, 2 * PANEL_ROWS * k + 2 * row);
        let codes = &bytes[2 * PANEL_ROWS * parts.fields..];
        // Byte c of this row's word w.
        let word = |w: usize, c: usize| codes[4 * PANEL_ROWS * w + 4 * row + c];
        // A quad is four codes; those of a line lie in the bytes of one word, at the same bits.
        let code = |bits: usize, quad: usize, c: usize| {
            (word(quad % parts.low, c) >> (bits * (quad / parts.low))) & ((1 << bits) - 1)
        };
        let first = field(0);
        for (i, v) in out.iter_mut().enumerate() {
            let (quad, c) = (i / 4, i % 4);
            *v = match quant {
                QuantType::Q2Sym => first * f32::from(2 * code(2, quad, c) as i8 - 3),
                QuantType::Q2 => first * f32::from(code(2, quad, c)) + field(1),
                QuantType::Q3 => {
                    let high = (word(parts.low + quad / 8, c) >> (quad % 8)) & 1;
                    first * f32::from(code(2, quad, c) | high << 2) + field(1)
                }
                QuantType::Q4 => first * f32::from(code(4, quad, c)) + field(1),
                QuantType::Ternary => first * f32::from(code(2, quad, c) as i8 - 1),
                QuantType::Q8 => first * f32::from(word(quad, c) as i8),
                _ => panic!("{quant} has no blocks of its own"),
            };
        }
    }
}

fn decode_floats<const W: usize>(bytes: &[u8], out: &mut [f32], read: impl Fn([u8; W]) -> f32) {
    assert!(bytes.len() >= out.len() * W, "row shorter than its columns");
    for (v, b) in out.iter_mut().zip(bytes.chunks_exact(W)) {
        let mut raw = [0; W];
        raw.copy_from_slice(b);
        *v = read(raw);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_tables::BUILT_IN;

    fn block(quant: QuantType, bytes: &[u8]) -> Vec<f32> {
        let mut out = vec![f32::NAN; 64];
        decode_block(quant, BlockSize::B64, bytes, &mut out);
        out
    }

    fn halves(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect()
    }

    #[test]
    fn two_bit_symmetric_codes_stand_at_byte_i_mod_16() {
        let mut bytes = halves(&[0.5]);
        bytes.extend([0u8; 16]);
        bytes[2] = 0b11_10_01_00; // elements 0, 16, 32, 48 have codes 0, 1, 2, 3
        let out = block(QuantType::Q2Sym, &bytes);
        assert_eq!([out[0], out[16], out[32], out[48], out[1]], [-1.5, -0.5, 0.5, 1.5, -1.5]);
    }

    #[test]
    fn three_bit_codes_take_their_high_bit_from_the_second_plane() {
        let mut bytes = halves(&[2.0, -4.0]);
        bytes.extend([0u8; 24]);
        bytes[4 + 3] = 0b01; // element 3: low code 1
        bytes[4 + 16] = 1 << 3; // and its high bit
        let out = block(QuantType::Q3, &bytes);
        assert_eq!([out[3], out[2]], [2.0 * 5.0 - 4.0, -4.0]);
    }

    #[test]
    fn four_bit_codes_put_the_second_half_in_high_nibbles() {
        let mut bytes = halves(&[1.0, 10.0]);
        bytes.extend([0u8; 32]);
        bytes[4 + 7] = 0xA3;
        let out = block(QuantType::Q4, &bytes);
        assert_eq!([out[7], out[39], out[8]], [13.0, 20.0, 10.0]);
    }

    #[test]
    fn ternary_zero_wins_over_sign_and_sign_bit_is_minus() {
        let mut bytes = halves(&[0.25]);
        bytes.extend([0u8; 16]);
        bytes[2] = 0b01; // element 0 negative
        bytes[10] = 0b10; // element 1 zero
        let out = block(QuantType::Ternary, &bytes);
        assert_eq!([out[0], out[1], out[2]], [-0.25, 0.0, 0.25]);
    }

    #[test]
    fn eight_bit_codes_are_signed() {
        let mut bytes = halves(&[0.5]);
        bytes.extend((0..64).map(|i| if i == 5 { 0x81u8 } else { 1 }));
        let out = block(QuantType::Q8, &bytes);
        assert_eq!([out[5], out[6]], [-63.5, 0.5]);
    }

    #[test]
    fn a_small_scale_beside_a_large_min_rounds_once() {
        let mut bytes = halves(&[0.1, 1000.0]);
        bytes.extend([0xFFu8; 32]);
        let scale = f16::from_f32(0.1).to_f32();
        assert_eq!(block(QuantType::Q4, &bytes)[0], scale * 15.0 + 1000.0);
    }

    #[test]
    fn a_row_decodes_its_true_columns_only() {
        for quant in QuantType::ALL {
            for block in BlockSize::ALL {
                let cols = block.get() + 3;
                let bytes = vec![0x3Cu8; quant.row_bytes(block, cols as u64).unwrap() as usize];
                let mut out = vec![f32::NAN; cols];
                decode_row(quant, block, &BUILT_IN, &bytes, &mut out);
                assert!(out.iter().all(|v| v.is_finite()), "{quant} {block}");
            }
        }
    }
}
