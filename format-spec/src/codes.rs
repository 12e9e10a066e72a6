//! Codes and scales of stored rows, taken apart: what a program looks at that wants more than the values.
//!
//! A value of a block is `scale * level + min`, rounded as [`decode_row`](crate::decode_row) says; `min` is 0 for types
//! without one. What is stored apart from the blocks (SPEC.md section 7.8) is not in it.

use half::f16;

use crate::block_size::BlockSize;
use crate::layout::PANEL_ROWS;
use crate::panels::{block_of_row, panel_bytes, superblock_bytes};
use crate::quant_type::QuantType;

/// Bytes of the largest block: 256 codes of 8 bits.
const LARGEST_BLOCK: usize = 2 + 256;

/// Rows whose blocks have a scale and codes of their own: of a type that is neither a float nor learned.
#[derive(Debug, Clone, Copy)]
pub struct CodedRows<'a> {
    /// Type of the values.
    pub quant: QuantType,
    /// Values per block.
    pub block: BlockSize,
    /// Values per row.
    pub cols: usize,
    /// How many rows, from the first on, are in panels.
    pub panel_rows: usize,
    /// All bytes of the rows.
    pub bytes: &'a [u8],
}

impl CodedRows<'_> {
    /// Whether a type has such rows.
    pub const fn suits(quant: QuantType) -> bool {
        !quant.is_float() && !quant.is_learned()
    }

    /// Numbers per block: a scale, and for some types a min.
    ///
    /// # Panics
    /// For a type without such blocks.
    pub fn fields(quant: QuantType) -> usize {
        assert!(Self::suits(quant), "{quant} has no blocks of its own");
        quant.encoding().scale_bytes() / 2
    }

    /// Blocks per row.
    pub fn blocks(&self) -> usize {
        self.cols.div_ceil(self.block.get())
    }

    /// The levels of a row, one for each column: numbers of 8 bits that scales are multiplied with. Those of `2bit`, `3bit` and
    /// `4bit` are the codes; of `2bit-sym` -3, -1, 1, 3; of `ternary` -1, 0, 1; of `8bit` -127 to 127.
    ///
    /// # Panics
    /// When `out` is not as long as a row, there is no such row, or the type has no such blocks.
    pub fn levels(&self, row: usize, out: &mut [i8]) {
        assert_eq!(out.len(), self.cols, "not one row");
        let (n, encoding) = (self.block.get(), self.quant.encoding());
        let mut room = [0; LARGEST_BLOCK];
        let plain = &mut room[..self.quant.block_bytes(self.block)];
        for (index, out) in out.chunks_mut(n).enumerate() {
            let in_panel = self.block_bytes(row, index, plain);
            let codes = &plain[encoding.scale_bytes()..];
            match encoding.planes() {
                // In panels codes are what they stand for, even where plain rows have them in another way.
                Some(planes) if in_panel => {
                    (0..).zip(out).for_each(|(i, level)| *level = encoding.level(planes.in_row(codes, n, i)));
                }
                _ => (0..).zip(out).for_each(|(i, level)| *level = encoding.level_in_row(codes, n, i)),
            }
        }
    }

    /// Field `field` of every block of a row: 0 is the scale, 1 the min.
    ///
    /// # Panics
    /// When `out` is not as long as the row has blocks, there is no such row or field, or the type has no such blocks.
    pub fn field(&self, field: usize, row: usize, out: &mut [f16]) {
        assert_eq!(out.len(), self.blocks(), "not one row");
        assert!(field < Self::fields(self.quant), "field {field} of {}", self.quant);
        let mut room = [0; LARGEST_BLOCK];
        let plain = &mut room[..self.quant.block_bytes(self.block)];
        for (index, out) in out.iter_mut().enumerate() {
            self.block_bytes(row, index, plain);
            *out = f16::from_le_bytes([plain[2 * field], plain[2 * field + 1]]);
        }
    }

    /// Block `index` of a row, and whether it comes from a panel.
    fn block_bytes(&self, row: usize, index: usize, out: &mut [u8]) -> bool {
        let size = out.len();
        let row_bytes = size * self.blocks();
        if row >= self.panel_rows {
            out.copy_from_slice(&self.bytes[row * row_bytes + index * size..][..size]);
            return false;
        }
        let panel = &self.bytes[row / PANEL_ROWS * PANEL_ROWS * row_bytes..];
        let panel = &panel[..panel_bytes(self.quant, self.block, self.blocks())];
        let superblock = superblock_bytes(self.quant, self.block);
        block_of_row(
            self.quant,
            self.block,
            &panel[index * superblock..][..superblock],
            row % PANEL_ROWS,
            out,
        );
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_tables::BUILT_IN;
    use crate::decode::decode_row;
    use crate::panels::interleave;

    #[test]
    fn scales_levels_and_mins_of_rows_and_panels_make_the_values() {
        for quant in QuantType::ALL.into_iter().filter(|quant| CodedRows::suits(*quant)) {
            for (block, cols) in BlockSize::ALL.into_iter().flat_map(|b| [(b, 300), (b, 256)]) {
                let row_bytes = quant.row_bytes(block, cols as u64).unwrap() as usize;
                // Halves of all kinds, but no exponents of infinities: bit 6 of upper bytes is never set.
                let plain: Vec<u8> = (0..19 * row_bytes).map(|i| (i * 167 + i / 7) as u8 & 0xBF).collect();
                let panels = interleave(quant, block, cols, &plain);
                for (bytes, panel_rows) in [(&plain, 0), (&panels, 16)] {
                    let rows = CodedRows { quant, block, cols, panel_rows, bytes };
                    let (mut levels, mut scales) = (vec![0; cols], vec![f16::ZERO; rows.blocks()]);
                    let (mut mins, mut expected) = (scales.clone(), vec![0.0; cols]);
                    for row in 0..19 {
                        decode_row(
                            quant,
                            block,
                            &BUILT_IN,
                            &plain[row * row_bytes..][..row_bytes],
                            &mut expected,
                        );
                        rows.levels(row, &mut levels);
                        rows.field(0, row, &mut scales);
                        if CodedRows::fields(quant) > 1 {
                            rows.field(1, row, &mut mins);
                        }
                        for (i, expected) in expected.iter().enumerate() {
                            let at = i / block.get();
                            let value = scales[at].to_f32() * f32::from(levels[i]) + mins[at].to_f32();
                            assert_eq!(value, *expected, "{quant} {block} row {row} column {i}");
                        }
                    }
                }
            }
        }
    }
}
