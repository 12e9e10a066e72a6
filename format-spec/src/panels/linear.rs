//! Panels of the types whose blocks have f16 scales of their own (SPEC.md section 6.1).

use super::bits::{codes_of_sign_and_zero, gather_bits, spread_bits};
use super::parts::{BlockParts, Line};
use crate::block_size::BlockSize;
use crate::encoding::{Encoding, RowCodes};
use crate::layout::PANEL_ROWS;
use crate::quant_type::QuantType;

/// Packs up to 16 rows; the caller has checked the sizes.
pub(super) fn pack(quant: QuantType, block: BlockSize, rows: &[&[u8]], out: &mut [u8]) {
    let (size, encoding) = (quant.block_bytes(block), quant.encoding());
    let parts = BlockParts::of(encoding, block.get());
    let sign_and_zero = matches!(encoding, Encoding::Symmetric { rows: RowCodes::SignAndZero, .. });
    for (j, superblock) in out.chunks_exact_mut(PANEL_ROWS * size).enumerate() {
        let (fields, codes) = superblock.split_at_mut(PANEL_ROWS * parts.scales);
        let fields = fields.as_chunks_mut::<2>().0.as_chunks_mut::<PANEL_ROWS>().0;
        let lines: &mut [Line] = codes.as_chunks_mut::<4>().0.as_chunks_mut().0;
        // `take` shows the compiler that r is in range.
        for (r, row) in rows.iter().enumerate().take(PANEL_ROWS) {
            let bytes = &row[j * size..][..size];
            let (own_fields, codes) = bytes.split_at(parts.scales);
            for (field, own) in fields.iter_mut().zip(own_fields.as_chunks().0) {
                field[r] = *own;
            }
            if sign_and_zero {
                codes_of_sign_and_zero(codes, |w, word| lines[w][r] = word);
                continue;
            }
            let (low, high) = lines.split_at_mut(parts.plain);
            let (own_low, own_high) = codes.as_chunks::<4>().0.split_at(parts.plain);
            for (line, word) in low.iter_mut().zip(own_low) {
                line[r] = *word;
            }
            for (line, word) in high.iter_mut().zip(own_high) {
                line[r] = spread_bits(u32::from_le_bytes(*word)).to_le_bytes();
            }
        }
    }
}

/// The block that row `row` has in a superblock; the caller has checked the sizes.
pub(super) fn unpack(quant: QuantType, block: BlockSize, superblock: &[u8], row: usize, out: &mut [u8]) {
    let parts = BlockParts::of(quant.encoding(), block.get());
    let (fields, codes) = superblock.split_at(PANEL_ROWS * parts.scales);
    let (out_fields, out_codes) = out.split_at_mut(parts.scales);
    let fields = fields.as_chunks::<2>().0.as_chunks::<PANEL_ROWS>().0;
    for (own, field) in out_fields.as_chunks_mut().0.iter_mut().zip(fields) {
        *own = field[row];
    }
    let lines: &[Line] = codes.as_chunks::<4>().0.as_chunks().0;
    for (own, line) in out_codes.as_chunks_mut().0.iter_mut().zip(lines) {
        *own = line[row];
    }
    for own in &mut out_codes.as_chunks_mut::<4>().0[parts.plain..parts.words()] {
        *own = gather_bits(u32::from_le_bytes(*own)).to_le_bytes();
    }
}
