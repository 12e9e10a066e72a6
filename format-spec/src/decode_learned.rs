//! The scalar decode of the learned types, by the definition (SPEC.md section 6.2).

use crate::block_size::BlockSize;
use crate::code_tables::CodeTables;
use crate::encoding::{Planes, read_f16};
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
    Trellis { sums: &'a SumTables, stream: Stream, scale: f32 },
}

impl Row<'_> {
    fn new(quant: QuantType, tables: &CodeTables, row_scale: f32) -> Row<'_> {
        if let Some(sums) = tables.sums(quant) {
            return Row::Trellis { sums, stream: Stream::default(), scale: row_scale * TRELLIS_UNIT };
        }
        let (levels, shift) = tables.grid(quant).expect("a learned type has a grid or sums");
        let planes = quant.encoding().planes().expect("codes of a grid have planes");
        Row::Grid { planes, levels, shift, scale: row_scale * GRID_UNIT }
    }

    /// The first `out.len()` values of the next block.
    fn decode_block(&mut self, block: &[u8], out: &mut [f32]) {
        match self {
            Row::Trellis { sums, stream, scale } => {
                let states = stream.states(block);
                for (column, v) in out.iter_mut().enumerate() {
                    *v = *scale * f32::from(sums.level(states[step_of_column(column)]));
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

/// The bits of a row that the next block of a trellis type still sees: the last byte before it.
#[derive(Default)]
struct Stream {
    last: u8,
}

impl Stream {
    /// The state of each of the 32 steps of a block: the 8 newest bits, the oldest lowest.
    fn states(&mut self, block: &[u8]) -> [u8; N] {
        let bits = block.len() * 8 / N;
        let byte = |i: usize| if i == 0 { self.last } else { block[i - 1] };
        let states = std::array::from_fn(|step| {
            // The window ends with the newest bit of the step, and starts in the byte before the block.
            let start = 8 + bits * (step + 1) - 8;
            let pair = u16::from(byte(start / 8)) | u16::from(byte((start / 8 + 1).min(block.len()))) << 8;
            (pair >> (start % 8)) as u8
        });
        self.last = block[block.len() - 1];
        states
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
    fn a_trellis_state_is_the_last_eight_bits_across_blocks() {
        for (quant, bits) in [(QuantType::T2, 2), (QuantType::T3, 3)] {
            let sums = BUILT_IN.sums(quant).unwrap();
            let bytes: Vec<u8> = (0..8 * bits).map(|i| (i * 73 + 19) as u8).collect();
            let (first, second) = bytes.split_at(4 * bits);
            let values = row(quant, 3.0, &[first, second]);
            // One bit after the other, as a string.
            let string: Vec<u8> =
                bytes.iter().flat_map(|byte| (0..8).map(move |i| (byte >> i) & 1)).collect();
            for step in 0..64 {
                let state = (0..8).fold(0u8, |state, i| {
                    let at = (bits * (step + 1) + i).checked_sub(8);
                    state | at.map_or(0, |at| string[at]) << i
                });
                let column = 32 * (step / 32) + 4 * (step % 8) + step % 32 / 8;
                assert_eq!(values[column], 3.0 / 128.0 * f32::from(sums.level(state)), "{quant} step {step}");
            }
        }
    }
}
