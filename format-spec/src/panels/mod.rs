//! Panels: the blocks of sixteen rows interleaved, so that one load of 64 bytes holds four codes of every row
//! (SPEC.md section 6.1). Nothing here decodes; [`decode_panel_row`](crate::decode_panel_row) does, by the definition.
//!
//! | File | Duty |
//! |---|---|
//! | `parts` | what a block consists of |
//! | `linear`, `learned` | blocks with scales of their own, and those of learned types, into panels and back |
//! | `bits` | bits moved from one order to the other |

mod bits;
mod learned;
mod linear;
mod parts;

use crate::block_size::BlockSize;
use crate::layout::Layout;
use crate::quant_type::QuantType;
use parts::BlockParts;

pub use crate::layout::PANEL_ROWS;

/// Bytes of a panel of `blocks` superblocks: those of its rows.
///
/// # Panics
/// For a float type, which has no blocks.
pub const fn panel_bytes(quant: QuantType, block: BlockSize, blocks: usize) -> usize {
    assert!(!quant.is_float(), "a float type has no panels");
    PANEL_ROWS * quant.row_head_bytes() + superblock_bytes(quant, block) * blocks
}

/// Bytes of the blocks of a panel's rows in one block column.
pub const fn superblock_bytes(quant: QuantType, block: BlockSize) -> usize {
    PANEL_ROWS * quant.block_bytes(block)
}

/// Packs up to 16 plain rows into one panel; rows that are missing become zeros. Each of `rows` holds the same number of
/// whole blocks, the columns that the panel shall have; `out` is [`panel_bytes`] of so many.
///
/// # Panics
/// When lengths do not fit together, or for a float type.
pub fn pack_panel(quant: QuantType, block: BlockSize, rows: &[&[u8]], out: &mut [u8]) {
    let (size, head) = (quant.block_bytes(block), PANEL_ROWS * quant.row_head_bytes());
    assert!(rows.len() <= PANEL_ROWS, "{} rows in a panel", rows.len());
    let blocks = out.len().checked_sub(head);
    assert!(blocks.is_some_and(|bytes| bytes.is_multiple_of(PANEL_ROWS * size)), "{} bytes", out.len());
    let row_bytes = out.len() / PANEL_ROWS;
    assert!(rows.iter().all(|row| row.len() == row_bytes), "rows of other bytes than {row_bytes}");
    if rows.len() < PANEL_ROWS {
        out.fill(0);
    }
    if quant.is_learned() {
        learned::pack(quant, rows, out);
    } else {
        linear::pack(quant, block, rows, out);
    }
}

/// The block that row `row` has in a superblock, in the order of a plain block. For `ternary`, whose codes have no planes
/// here: d, then the 2-bit codes in the order of `2bit`. `out` has the bytes of one block.
///
/// # Panics
/// When `row` is not below 16, a length is wrong, or for a float type.
pub fn block_of_row(quant: QuantType, block: BlockSize, superblock: &[u8], row: usize, out: &mut [u8]) {
    assert_eq!(superblock.len(), superblock_bytes(quant, block), "not one superblock");
    assert_eq!(out.len(), quant.block_bytes(block), "not one block");
    assert!(row < PANEL_ROWS, "row {row} of a panel");
    if quant.is_learned() {
        learned::unpack(quant, superblock, row, out);
    } else {
        linear::unpack(quant, block, superblock, row, out);
    }
}

/// Copies row `from_row` of a panel to row `to_row` of another of the same type and size.
///
/// # Panics
/// When the panels are of different sizes, a row is not below 16, or for a float type.
pub fn copy_panel_row(
    quant: QuantType,
    block: BlockSize,
    from: &[u8],
    from_row: usize,
    to: &mut [u8],
    to_row: usize,
) {
    assert_eq!(from.len(), to.len(), "panels of different sizes");
    assert!(from_row < PANEL_ROWS && to_row < PANEL_ROWS, "row {from_row} or {to_row} of a panel");
    // Everything in a panel is a row of sixteen cells, one of each row: of the head of a row, a field or a scale, a word.
    let copy = |width: usize, from: &[u8], to: &mut [u8]| {
        if width > 0 {
            let groups = PANEL_ROWS * width;
            for (from, to) in from.chunks_exact(groups).zip(to.chunks_exact_mut(groups)) {
                to[to_row * width..][..width].copy_from_slice(&from[from_row * width..][..width]);
            }
        }
    };
    let scales = BlockParts::of(quant.encoding(), block.get()).scales;
    // A scale of a learned type is a byte, any other number an f16.
    let width = if quant.is_learned() { 1 } else { 2 };
    let head = quant.row_head_bytes();
    let (from_heads, from) = from.split_at(PANEL_ROWS * head);
    let (to_heads, to) = to.split_at_mut(PANEL_ROWS * head);
    copy(head, from_heads, to_heads);
    let size = superblock_bytes(quant, block);
    for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
        let (from_fields, from_words) = from.split_at(PANEL_ROWS * scales);
        let (to_fields, to_words) = to.split_at_mut(PANEL_ROWS * scales);
        copy(width, from_fields, to_fields);
        copy(size_of::<parts::Word>(), from_words, to_words);
    }
}

/// A tensor, or whole panels of one, from plain rows of `cols` columns to [`Layout::Panels16`].
///
/// # Panics
/// When `plain` is not whole rows, or for a float type.
pub fn interleave(quant: QuantType, block: BlockSize, cols: usize, plain: &[u8]) -> Vec<u8> {
    let blocks = cols.div_ceil(quant.block_size(block).get());
    let row_bytes = quant.row_head_bytes() + quant.block_bytes(block) * blocks;
    assert!(row_bytes > 0 && plain.len().is_multiple_of(row_bytes), "{} bytes of rows", plain.len());
    let in_panels = Layout::Panels16.panel_rows(plain.len() / row_bytes) * row_bytes;
    let (panels, tail) = plain.split_at(in_panels);
    let mut out = vec![0; in_panels];
    let bytes = PANEL_ROWS * row_bytes;
    for (plain, panel) in panels.chunks_exact(bytes).zip(out.chunks_exact_mut(bytes)) {
        let rows: [&[u8]; PANEL_ROWS] = std::array::from_fn(|r| &plain[r * row_bytes..][..row_bytes]);
        pack_panel(quant, block, &rows, panel);
    }
    out.extend_from_slice(tail);
    out
}

#[cfg(test)]
mod tests;
