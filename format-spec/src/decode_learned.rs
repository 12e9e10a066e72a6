//! The scalar decode of the learned types, by the definition (SPEC.md section 6.2).

use crate::block_size::BlockSize;
use crate::code_tables::CodeTables;
use crate::encoding::{Encoding, Planes, TrellisState, read_f16};
use crate::layout::PANEL_ROWS;
use crate::panels::{block_of_row, superblock_bytes};
use crate::quant_type::QuantType;
use crate::sum_tables::SumTables;

/// Values per block.
const N: usize = BlockSize::B32.get();
/// What a row's scale is multiplied with in a grid type: with it, scales of ordinary weights are normal f16 numbers.
pub const GRID_UNIT: f32 = 1.0 / 4096.0;
/// What a row's scale is multiplied with in a trellis type, which has no block scales.
pub const TRELLIS_UNIT: f32 = 1.0 / 128.0;

/// Decodes one plain row of a learned type.
///
/// # Panics
/// When `bytes` is shorter than the row, or for another type.
pub(crate) fn decode_learned_row(quant: QuantType, tables: &CodeTables, bytes: &[u8], out: &mut [f32]) {
    let (head, blocks) = bytes.split_at(quant.row_head_bytes());
    let blocks = blocks.chunks_exact(quant.block_bytes(BlockSize::B32));
    assert!(blocks.len() * N >= out.len(), "row shorter than its columns");
    let mut row = Row::new(quant, tables, read_f16(head, 0));
    for (block, out) in blocks.zip(out.chunks_mut(N)) {
        row.decode_block(block, out);
    }
}

/// Decodes one row of a panel of a learned type; the caller has checked the sizes.
pub(crate) fn decode_learned_panel_row(
    quant: QuantType,
    tables: &CodeTables,
    panel: &[u8],
    row: usize,
    out: &mut [f32],
) {
    let (heads, superblocks) = panel.split_at(PANEL_ROWS * quant.row_head_bytes());
    let superblocks = superblocks.chunks_exact(superblock_bytes(quant, BlockSize::B32));
    let mut room = [0; QuantType::MOST_LEARNED_BLOCK_BYTES];
    let plain = &mut room[..quant.block_bytes(BlockSize::B32)];
    let mut decoder = Row::new(quant, tables, read_f16(heads, quant.row_head_bytes() * row));
    for (superblock, out) in superblocks.zip(out.chunks_mut(N)) {
        block_of_row(quant, BlockSize::B32, superblock, row, plain);
        decoder.decode_block(plain, out);
    }
}

/// A row whose blocks are decoded one after the other.
enum Row<'a> {
    Grid { planes: Planes, levels: &'a [i8], shift: i8, scale: f32 },
    Trellis { sums: &'a SumTables, stream: TrellisStream, scale: f32 },
}

impl Row<'_> {
    fn new(quant: QuantType, tables: &CodeTables, row_scale: f32) -> Row<'_> {
        if let (Encoding::Trellis { bits, state, .. }, Some(sums)) = (quant.encoding(), tables.sums(quant)) {
            return Row::Trellis {
                sums,
                stream: TrellisStream::new(bits, state),
                scale: row_scale * TRELLIS_UNIT,
            };
        }
        let (levels, shift) = tables.grid(quant).expect("a learned type has a grid or sums");
        let planes = quant.encoding().planes().expect("codes of a grid have planes");
        Row::Grid { planes, levels, shift, scale: row_scale * GRID_UNIT }
    }

    /// The first `out.len()` values of the next block.
    fn decode_block(&mut self, block: &[u8], out: &mut [f32]) {
        match self {
            Row::Trellis { sums, stream, scale } => {
                for (v, state) in out.iter_mut().zip(stream.states(block)) {
                    *v = *scale * f32::from(sums.level(state));
                }
            }
            Row::Grid { planes, levels, shift, scale } => {
                let (byte, codes) = (block[0] as i8, &block[1..]);
                let d = *scale * f32::from(byte >> 1);
                let shift = if byte & 1 == 1 { i16::from(*shift) } else { 0 };
                for (i, v) in out.iter_mut().enumerate() {
                    let code = planes.in_row(codes, N, i);
                    *v = d * f32::from(i16::from(levels[usize::from(code)]) + shift);
                }
            }
        }
    }
}

/// The step of a block that codes a column: the steps of eight columns that are four apart follow each other, so that in a
/// panel the four bytes of a word belong to four neighbouring columns.
pub const fn step_of_column(column: usize) -> usize {
    8 * (column % 4) + column / 4
}

/// Most bytes of a block of a trellis type, whose steps have at most 4 bits.
const MOST_TRELLIS_BYTES: usize = 4 * N / 8;

/// The blocks of a row of a trellis type on their way to folded states, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct TrellisStream {
    bits: usize,
    state: TrellisState,
    /// The last two bytes before the block.
    before: [u8; 2],
}

impl TrellisStream {
    /// The start of a row of a type with `bits` bits a step: the bits before it are 0.
    pub const fn new(bits: usize, state: TrellisState) -> TrellisStream {
        TrellisStream { bits, state, before: [0; 2] }
    }

    /// What chooses the level of each column of the next block: an argument of [`SumTables::level`].
    ///
    /// # Panics
    /// When `block` is shorter than a block of the type.
    #[inline(always)]
    pub fn states(&mut self, block: &[u8]) -> [u8; N] {
        let (bits, len) = (self.bits, 4 * self.bits);
        // Two bytes more than there are, and six so that eight can be read from the last quarter on.
        let mut string = [0; 2 + MOST_TRELLIS_BYTES + 6];
        string[..2].copy_from_slice(&self.before);
        string[2..2 + len].copy_from_slice(&block[..len]);
        self.before = [string[len], string[len + 1]];
        let mut quarters = [0; 4];
        for (quarter, bytes) in quarters.iter_mut().zip((0..4).map(|quarter| &string[bits * quarter..])) {
            *quarter = u64::from_le_bytes(bytes[..8].try_into().unwrap_or([0; 8]));
        }
        // Steps of eight columns that are four apart follow each other (see `step_of_column`).
        std::array::from_fn(|column| {
            self.state.fold((quarters[column % 4] >> (bits * (column / 4 + 1))) as u16)
        })
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::code_tables::BUILT_IN;
    use crate::decode_row;

    fn row(quant: QuantType, scale: f32, blocks: &[&[u8]]) -> Vec<f32> {
        let bytes = [&f16::from_f32(scale).to_le_bytes()[..], &blocks.concat()].concat();
        let mut out = vec![f32::NAN; 32 * blocks.len()];
        decode_row(quant, BlockSize::B64, &BUILT_IN, &bytes, &mut out);
        out
    }

    #[test]
    fn a_grid_value_is_row_scale_times_block_scale_times_level() {
        // n4: s = -3, second grid. Byte 1 holds elements 1 (low half, code 2) and 17 (high half, code 15).
        let mut block = [0; 17];
        block[0] = ((-3i8 << 1) | 1) as u8;
        block[2] = 0xF2;
        let values = row(QuantType::N4, 2.0, &[&block]);
        let d = 2.0 / 4096.0 * -3.0;
        let (levels, shift) = BUILT_IN.grid(QuantType::N4).unwrap();
        let expected = |code: usize| d * (f32::from(levels[code]) + f32::from(shift));
        assert_eq!((values[1], values[17], values[0]), (expected(2), expected(15), expected(0)));
    }

    #[test]
    fn planes_of_three_five_and_six_bits_are_joined() {
        // Element 9 is bit 1 of byte 1 of a high plane; its 2-bit code is in byte 1, bits 2 and 3; its 4-bit code in byte 9.
        let unit = 1.0 / 4096.0 * 4.0;
        let level = |quant, code: usize| f32::from(BUILT_IN.grid(quant).unwrap().0[code]);
        let mut n3 = [0; 13];
        (n3[0], n3[1 + 1], n3[1 + 8 + 1]) = (8, 0b10 << 2, 0b10);
        assert_eq!(row(QuantType::N3, 1.0, &[&n3])[9], unit * level(QuantType::N3, 0b110));
        let mut n5 = [0; 21];
        (n5[0], n5[1 + 9], n5[1 + 16 + 1]) = (8, 0x05, 0b10);
        assert_eq!(row(QuantType::N5, 1.0, &[&n5])[9], unit * level(QuantType::N5, 0x15));
        let mut q6 = [0; 25];
        (q6[0], q6[1 + 9], q6[1 + 16 + 1]) = (8, 0x05, 0b11 << 2);
        assert_eq!(row(QuantType::Q6, 1.0, &[&q6])[9], unit * (2.0 * 53.0 - 64.0));
    }

    #[test]
    fn a_trellis_state_is_the_last_bits_across_blocks() {
        let types = [
            (QuantType::T2, 2),
            (QuantType::T3, 3),
            (QuantType::X2, 2),
            (QuantType::X3, 3),
            (QuantType::X4, 4),
        ];
        for (quant, bits) in types {
            let sums = BUILT_IN.sums(quant).unwrap();
            let bytes: Vec<u8> = (0..8 * bits).map(|i| (i * 73 + 19) as u8).collect();
            let (first, second) = bytes.split_at(4 * bits);
            let values = row(quant, 3.0, &[first, second]);
            // One bit after the other, as a string.
            let string: Vec<u8> =
                bytes.iter().flat_map(|byte| (0..8).map(move |i| (byte >> i) & 1)).collect();
            for step in 0..64 {
                // Four bits that end `back` bits before those of the step do.
                let nibble = |back: usize| {
                    (0..4).fold(0u8, |nibble, i| {
                        let at = (bits * (step + 1) + i).checked_sub(4 + back);
                        nibble | at.map_or(0, |at| string[at]) << i
                    })
                };
                let older = if matches!(quant, QuantType::T2 | QuantType::T3) { 0 } else { nibble(12) };
                let level = sums.newest[usize::from(nibble(0))] + sums.oldest[usize::from(nibble(4) ^ older)];
                let column = 32 * (step / 32) + 4 * (step % 8) + step % 32 / 8;
                assert_eq!(values[column], 3.0 / 128.0 * f32::from(level), "{quant} step {step}");
            }
        }
    }
}
