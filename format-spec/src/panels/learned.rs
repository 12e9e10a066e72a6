//! Panels of the learned types: sixteen row scales, then superblocks (SPEC.md section 6.2).

use super::bits::{gather_bits, spread_bits};
use super::parts::{BlockParts, Line, Word};
use crate::block_size::BlockSize;
use crate::layout::PANEL_ROWS;
use crate::quant_type::QuantType;

const N: usize = BlockSize::B32.get();

/// Packs up to 16 rows; the caller has checked the sizes.
pub(super) fn pack(quant: QuantType, rows: &[&[u8]], out: &mut [u8]) {
    let (parts, is_trellis) = (BlockParts::of(quant.encoding(), N), quant.is_trellis());
    let (head, size) = (quant.row_head_bytes(), quant.block_bytes(BlockSize::B32));
    let (heads, superblocks) = out.split_at_mut(PANEL_ROWS * head);
    for (row, out) in rows.iter().zip(heads.chunks_exact_mut(head)) {
        out.copy_from_slice(&row[..head]);
    }
    for (j, superblock) in superblocks.chunks_exact_mut(PANEL_ROWS * size).enumerate() {
        let (scales, codes) = superblock.split_at_mut(PANEL_ROWS * parts.scales);
        let lines: &mut [Line] = codes.as_chunks_mut::<4>().0.as_chunks_mut().0;
        for (r, row) in rows.iter().enumerate().take(PANEL_ROWS) {
            let (scale, codes) = row[head + j * size..][..size].split_at(parts.scales);
            if let Some(scale) = scale.first() {
                scales[r] = *scale;
            }
            for (w, line) in lines.iter_mut().enumerate() {
                line[r] = match w.checked_sub(parts.plain) {
                    None if is_trellis => std::array::from_fn(|c| codes[parts.plain * c + w]),
                    None => word(codes, w),
                    Some(_) => spread_bits(u32::from_le_bytes(word(codes, w))).to_le_bytes(),
                };
            }
        }
    }
}

/// The block that row `row` has in a superblock, in the order of a plain row; the caller has checked the sizes.
pub(super) fn unpack(quant: QuantType, superblock: &[u8], row: usize, out: &mut [u8]) {
    let (parts, is_trellis) = (BlockParts::of(quant.encoding(), N), quant.is_trellis());
    let (scales, codes) = superblock.split_at(PANEL_ROWS * parts.scales);
    let (scale, out) = out.split_at_mut(parts.scales);
    if let Some(scale) = scale.first_mut() {
        *scale = scales[row];
    }
    let lines: &[Line] = codes.as_chunks::<4>().0.as_chunks().0;
    for (w, line) in lines.iter().enumerate() {
        let found = line[row];
        if is_trellis {
            for (c, byte) in found.into_iter().enumerate() {
                out[parts.plain * c + w] = byte;
            }
            continue;
        }
        let found =
            if w < parts.plain { found } else { gather_bits(u32::from_le_bytes(found)).to_le_bytes() };
        out[4 * w..][..4].copy_from_slice(&found);
    }
}

fn word(codes: &[u8], w: usize) -> Word {
    [codes[4 * w], codes[4 * w + 1], codes[4 * w + 2], codes[4 * w + 3]]
}
