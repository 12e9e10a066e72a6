//! Panels of the learned types: sixteen row scales, then superblocks (SPEC.md section 6.4).

use super::{Line, PANEL_ROWS, Word, gather_bits, spread_bits, superblock_bytes};
use crate::quant_type::{BlockSize, QuantType};

/// What a block consists of: perhaps a byte of scale, words of codes, words of single high bits.
struct Parts {
    scale: usize,
    plain: usize,
    bits: usize,
}

impl Parts {
    fn of(quant: QuantType) -> Parts {
        let (scale, plain, bits) = match quant {
            QuantType::N2 => (1, 2, 0),
            QuantType::N3 => (1, 2, 1),
            QuantType::N4 => (1, 4, 0),
            QuantType::N5 => (1, 4, 1),
            QuantType::Q6 => (1, 6, 0),
            QuantType::T2 => (0, 2, 0),
            QuantType::T3 => (0, 3, 0),
            _ => panic!("{quant} is no learned type"),
        };
        Parts { scale, plain, bits }
    }
}

/// Bytes of scale of a block.
pub(super) fn scales(quant: QuantType) -> usize {
    Parts::of(quant).scale
}

/// Packs up to 16 rows; the caller has checked the sizes.
pub(super) fn pack(quant: QuantType, rows: &[&[u8]], out: &mut [u8]) {
    let parts = Parts::of(quant);
    let (head, size) = (quant.row_head_bytes(), quant.block_bytes(BlockSize::B32));
    let (heads, superblocks) = out.split_at_mut(PANEL_ROWS * head);
    for (row, out) in rows.iter().zip(heads.chunks_exact_mut(head)) {
        out.copy_from_slice(&row[..head]);
    }
    for (j, superblock) in superblocks.chunks_exact_mut(superblock_bytes(quant, BlockSize::B32)).enumerate() {
        let (scales, codes) = superblock.split_at_mut(PANEL_ROWS * parts.scale);
        let lines: &mut [Line] = codes.as_chunks_mut::<4>().0.as_chunks_mut().0;
        for (r, row) in rows.iter().enumerate().take(PANEL_ROWS) {
            let (scale, codes) = row[head + j * size..][..size].split_at(parts.scale);
            if let Some(scale) = scale.first() {
                scales[r] = *scale;
            }
            for (w, line) in lines.iter_mut().enumerate() {
                line[r] = match w.checked_sub(parts.plain) {
                    None if quant.is_trellis() => std::array::from_fn(|c| codes[parts.plain * c + w]),
                    None => word(codes, w),
                    Some(_) => spread_bits(u32::from_le_bytes(word(codes, w))).to_le_bytes(),
                };
            }
        }
    }
}

/// The block that row `row` has in a superblock, in the order of a plain row.
///
/// # Panics
/// When `row` is not below 16, or a length is wrong.
pub(crate) fn unpack(quant: QuantType, superblock: &[u8], row: usize, out: &mut [u8]) {
    let parts = Parts::of(quant);
    let (scales, codes) = superblock.split_at(PANEL_ROWS * parts.scale);
    let (scale, out) = out.split_at_mut(parts.scale);
    if let Some(scale) = scale.first_mut() {
        *scale = scales[row];
    }
    let lines: &[Line] = codes.as_chunks::<4>().0.as_chunks().0;
    assert_eq!((lines.len(), 4 * lines.len()), (parts.plain + parts.bits, out.len()), "not one superblock");
    for (w, line) in lines.iter().enumerate() {
        let found = line[row];
        if quant.is_trellis() {
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
