//! One scalar decode per block type and layout (SPEC.md section 6). This is the definition that every kernel is tested against.
//!
//! The formulas have one rounding at most: an f16 times a code of at most 8 bits is exact in f32, so that only the sum of
//! `scale * q + min` rounds, fused or not.

use half::f16;

use crate::block_size::BlockSize;
use crate::code_tables::CodeTables;
use crate::decode_learned::{decode_learned_panel_row, decode_learned_row};
use crate::encoding::{Encoding, FloatFormat, read_f16};
use crate::layout::PANEL_ROWS;
use crate::panels::{panel_bytes, superblock_bytes};
use crate::quant_type::QuantType;

/// Decodes one row: `bytes` as `QuantType::row_bytes` says for `out.len()` columns. Padding codes of the last block
/// are not looked at. Only learned types look at `tables`.
///
/// # Panics
/// When `bytes` is shorter than the row; callers check sizes when they open a tensor.
pub fn decode_row(quant: QuantType, block: BlockSize, tables: &CodeTables, bytes: &[u8], out: &mut [f32]) {
    match quant.encoding() {
        Encoding::Float(FloatFormat::F16) => {
            decode_floats::<2>(bytes, out, |b| f16::from_le_bytes(b).to_f32());
        }
        Encoding::Float(FloatFormat::Bf16) => {
            decode_floats::<2>(bytes, out, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16));
        }
        Encoding::Float(FloatFormat::F32) => decode_floats::<4>(bytes, out, f32::from_le_bytes),
        Encoding::Grid { .. } | Encoding::Trellis { .. } => decode_learned_row(quant, tables, bytes, out),
        Encoding::Affine(_) | Encoding::Symmetric { .. } | Encoding::SignedBytes => {
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
    assert!(out.len() <= block.get(), "more values than a block holds");
    let encoding = quant.encoding();
    assert!(!quant.is_float() && !quant.is_learned(), "{quant} has no blocks of its own");
    let (fields, codes) = bytes.split_at(encoding.scale_bytes());
    let scale = read_f16(fields, 0);
    let min = encoding.has_min().then(|| read_f16(fields, 2));
    for (i, v) in out.iter_mut().enumerate() {
        *v = linear_value(scale, encoding.level_in_row(codes, block.get(), i), min);
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
    let encoding = quant.encoding();
    let planes = encoding.planes().expect("a block type that is not learned");
    for (bytes, out) in panel.chunks_exact(superblock_bytes(quant, block)).zip(out.chunks_mut(n)) {
        let (fields, codes) = bytes.split_at(PANEL_ROWS * encoding.scale_bytes());
        let field = |k: usize| read_f16(fields, 2 * PANEL_ROWS * k + 2 * row);
        let byte = |word: usize, c: usize| codes[4 * PANEL_ROWS * word + 4 * row + c];
        let (scale, min) = (field(0), encoding.has_min().then(|| field(1)));
        for (i, v) in out.iter_mut().enumerate() {
            *v = linear_value(scale, encoding.level(planes.in_panel(byte, n, i)), min);
        }
    }
}

/// A value of a type with levels that are whole numbers. Without a min nothing is added: 0 would make -0 another number.
fn linear_value(scale: f32, level: i8, min: Option<f32>) -> f32 {
    let product = scale * f32::from(level);
    min.map_or(product, |min| product + min)
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
