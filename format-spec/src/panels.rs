//! Panels: the blocks of sixteen rows interleaved, so that one load of 64 bytes holds four codes of every row
//! (SPEC.md section 6.1). Nothing here decodes; [`decode_panel_row`](crate::decode_panel_row) does, by the definition.

mod learned;

use crate::layout::Layout;
use crate::quant_type::{BlockSize, QuantType};

pub use crate::layout::PANEL_ROWS;

pub(crate) use learned::unpack as unpanel_learned;

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

/// What a block of one row consists of.
#[derive(Clone, Copy)]
pub(crate) struct BlockParts {
    /// f16 numbers: a scale, and perhaps a min.
    pub fields: usize,
    /// Words (4 bytes) of codes; of `3bit` only the low bits.
    pub low: usize,
    /// Words of high bits.
    pub high: usize,
}

impl BlockParts {
    pub(crate) fn of(quant: QuantType, block: BlockSize) -> BlockParts {
        let n = block.get();
        let (fields, low, high) = match quant {
            QuantType::Q2Sym | QuantType::Ternary => (1, n / 16, 0),
            QuantType::Q2 => (2, n / 16, 0),
            QuantType::Q3 => (2, n / 16, n / 32),
            QuantType::Q4 => (2, n / 8, 0),
            QuantType::Q8 => (1, n / 4, 0),
            _ => panic!("{quant} has no blocks of its own"),
        };
        BlockParts { fields, low, high }
    }

    fn words(self) -> usize {
        self.low + self.high
    }
}

/// Four bytes of codes of one row.
type Word = [u8; 4];
/// One word of each row.
type Line = [Word; PANEL_ROWS];

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
        return learned::pack(quant, rows, out);
    }
    let parts = BlockParts::of(quant, block);
    for (j, superblock) in out.chunks_exact_mut(PANEL_ROWS * size).enumerate() {
        let (fields, codes) = superblock.split_at_mut(PANEL_ROWS * 2 * parts.fields);
        let fields = fields.as_chunks_mut::<2>().0.as_chunks_mut::<PANEL_ROWS>().0;
        let lines: &mut [Line] = codes.as_chunks_mut::<4>().0.as_chunks_mut().0;
        // `take` shows the compiler that r is in range.
        for (r, row) in rows.iter().enumerate().take(PANEL_ROWS) {
            let bytes = &row[j * size..][..size];
            let (own_fields, codes) = bytes.split_at(2 * parts.fields);
            for (field, own) in fields.iter_mut().zip(own_fields.as_chunks().0) {
                field[r] = *own;
            }
            if quant == QuantType::Ternary {
                ternary_codes(codes, |w, word| lines[w][r] = word);
                continue;
            }
            let (low, high) = lines.split_at_mut(parts.low);
            let (own_low, own_high) = codes.as_chunks::<4>().0.split_at(parts.low);
            for (line, word) in low.iter_mut().zip(own_low) {
                line[r] = *word;
            }
            for (line, word) in high.iter_mut().zip(own_high) {
                line[r] = spread_bits(u32::from_le_bytes(*word)).to_le_bytes();
            }
        }
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
        return learned::unpack(quant, superblock, row, out);
    }
    let parts = BlockParts::of(quant, block);
    let (fields, codes) = superblock.split_at(PANEL_ROWS * 2 * parts.fields);
    let (out_fields, out_codes) = out.split_at_mut(2 * parts.fields);
    let fields = fields.as_chunks::<2>().0.as_chunks::<PANEL_ROWS>().0;
    for (own, field) in out_fields.as_chunks_mut().0.iter_mut().zip(fields) {
        *own = field[row];
    }
    let lines: &[Line] = codes.as_chunks::<4>().0.as_chunks().0;
    for (own, line) in out_codes.as_chunks_mut().0.iter_mut().zip(lines) {
        *own = line[row];
    }
    for own in &mut out_codes.as_chunks_mut::<4>().0[parts.low..parts.words()] {
        *own = gather_bits(u32::from_le_bytes(*own)).to_le_bytes();
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
    let (width, count) = if quant.is_learned() {
        (1, learned::scales(quant))
    } else {
        (2, BlockParts::of(quant, block).fields)
    };
    let head = quant.row_head_bytes();
    let (from_heads, from) = from.split_at(PANEL_ROWS * head);
    let (to_heads, to) = to.split_at_mut(PANEL_ROWS * head);
    copy(head, from_heads, to_heads);
    let size = superblock_bytes(quant, block);
    for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
        let (from_fields, from_words) = from.split_at(PANEL_ROWS * width * count);
        let (to_fields, to_words) = to.split_at_mut(PANEL_ROWS * width * count);
        copy(width, from_fields, to_fields);
        copy(size_of::<Word>(), from_words, to_words);
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

/// Bits of eight quads of one row, from 4j + c (code c of quad j) to 8c + j: then one shift puts those of a quad into
/// the same place of four bytes.
#[inline(always)]
fn spread_bits(word: u32) -> u32 {
    // The number of a bit has five bits itself. Each step swaps two of these for all: jjjcc becomes ccjjj.
    let word = swap_bits(word, 14, 0x0000_CCCC);
    let word = swap_bits(word, 7, 0x00AA_00AA);
    let word = swap_bits(word, 2, 0x0C0C_0C0C);
    swap_bits(word, 1, 0x2222_2222)
}

/// Undoes [`spread_bits`].
#[inline(always)]
fn gather_bits(word: u32) -> u32 {
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
fn ternary_codes(planes: &[u8], mut put: impl FnMut(usize, Word)) {
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

#[cfg(test)]
mod tests;
