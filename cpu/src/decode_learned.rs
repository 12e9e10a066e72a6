//! Rows of learned types to floats, fast: the values of `qsf_format::decode_row` and `decode_panel_row`, by tables of the
//! products that a block or a row can have.

use qsf_format::panels::{PANEL_ROWS, block_of_row, superblock_bytes};
use qsf_format::{
    BlockSize, CodeTables, Encoding, GRID_UNIT, GridLevels, Planes, QuantType, SumTables, TRELLIS_UNIT,
    TrellisStream,
};

use super::float16::f16_to_f32;
use super::isa::Vectorized;
use super::row_blocks::each_block;

/// Values per block.
const N: usize = BlockSize::B32.get();
/// Most bytes of a block.
const BLOCK_BYTES: usize = QuantType::MOST_LEARNED_BLOCK_BYTES;

/// Decodes a row of a learned type.
pub(super) struct DecodeLearned<'a> {
    pub(super) quant: QuantType,
    pub(super) tables: &'a CodeTables,
    /// A plain row, or a panel.
    pub(super) bytes: &'a [u8],
    /// Which row of the panel.
    pub(super) row: Option<usize>,
    pub(super) out: &'a mut [f32],
}

impl Vectorized for DecodeLearned<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let DecodeLearned { quant, tables, bytes, row, out } = self;
        let head_bytes = quant.row_head_bytes();
        let (rows, at, size) = match row {
            Some(row) => (PANEL_ROWS, row, superblock_bytes(quant, BlockSize::B32)),
            None => (1, 0, quant.block_bytes(BlockSize::B32)),
        };
        let (heads, blocks) = bytes.split_at(rows * head_bytes);
        let row_scale = f16_to_f32(u16::from_le_bytes([heads[head_bytes * at], heads[head_bytes * at + 1]]));
        let mut blocks = blocks.chunks_exact(size);
        let mut room = [0; BLOCK_BYTES];
        let mut next = || {
            let block = blocks.next().expect("row shorter than its columns");
            match row {
                Some(row) => {
                    block_of_row(quant, BlockSize::B32, block, row, &mut room[..size / PANEL_ROWS]);
                }
                None => room[..size].copy_from_slice(block),
            }
            room
        };
        if let (Encoding::Trellis { bits, state, .. }, Some(sums)) = (quant.encoding(), tables.sums(quant)) {
            // Numbers that the compiler knows: all shifts are by constants.
            match (bits, state) {
                (2, state) => trellis(TrellisStream::new(2, state), sums, row_scale, next, out),
                (3, state) => trellis(TrellisStream::new(3, state), sums, row_scale, next, out),
                (bits, state) => trellis(TrellisStream::new(bits, state), sums, row_scale, next, out),
            }
        } else if let (Encoding::Grid { planes, levels: kind, .. }, Some((levels, shift))) =
            (quant.encoding(), tables.grid(quant))
        {
            each_block::<N>(out, |out| {
                let block = next();
                let scale = block[0] as i8;
                let d = row_scale * GRID_UNIT * f32::from(scale >> 1);
                let shift = if scale & 1 == 1 { i16::from(shift) } else { 0 };
                let codes = codes(planes, &block);
                if kind == GridLevels::Even {
                    for (out, code) in out.iter_mut().zip(codes) {
                        *out = d * f32::from(2 * i16::from(code) - (1 << planes.bits()) + shift);
                    }
                    return;
                }
                let mut products = [0.0; N];
                for (product, level) in products.iter_mut().zip(levels) {
                    *product = d * f32::from(i16::from(*level) + shift);
                }
                for (out, code) in out.iter_mut().zip(codes) {
                    *out = products[usize::from(code) % N];
                }
            });
        }
    }
}

/// The codes of a block of a grid type.
#[inline(always)]
fn codes(planes: Planes, block: &[u8; BLOCK_BYTES]) -> [u8; N] {
    let bytes = &block[1..];
    let mut codes = [0; N];
    match planes.low {
        2 => {
            two_bits(&bytes[..N / 4], &mut codes, 0);
            if planes.high == 1 {
                one_bit(&bytes[N / 4..][..N / 8], &mut codes, 2);
            }
        }
        _ => {
            let (low, high) = codes.split_at_mut(N / 2);
            for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
                (*low, *high) = (byte & 15, byte >> 4);
            }
            match planes.high {
                1 => one_bit(&bytes[N / 2..][..N / 8], &mut codes, 4),
                2 => two_bits(&bytes[N / 2..][..N / 4], &mut codes, 4),
                _ => {}
            }
        }
    }
    codes
}

/// Adds a plane of two bits of each code in the place `place`.
#[inline(always)]
fn two_bits(plane: &[u8], codes: &mut [u8; N], place: usize) {
    for (k, codes) in codes.chunks_exact_mut(N / 4).enumerate() {
        for (code, byte) in codes.iter_mut().zip(plane) {
            *code |= (byte >> (2 * k) & 3) << place;
        }
    }
}

/// Adds a plane of one bit of each code in the place `place`.
#[inline(always)]
fn one_bit(plane: &[u8], codes: &mut [u8; N], place: usize) {
    for (codes, byte) in codes.chunks_exact_mut(8).zip(plane) {
        for (i, code) in codes.iter_mut().enumerate() {
            *code |= (byte >> i & 1) << place;
        }
    }
}

/// A row of a trellis type, whose blocks `next` gives.
#[inline(always)]
fn trellis(
    stream: TrellisStream,
    sums: &SumTables,
    row_scale: f32,
    mut next: impl FnMut() -> [u8; BLOCK_BYTES],
    out: &mut [f32],
) {
    let scale = row_scale * TRELLIS_UNIT;
    let mut products = [0.0; 256];
    for (product, state) in products.iter_mut().zip(0..=255) {
        *product = scale * f32::from(sums.level(state));
    }
    let mut stream = stream;
    each_block::<N>(out, |out| {
        for (out, state) in out.iter_mut().zip(stream.states(&next())) {
            *out = products[usize::from(state)];
        }
    });
}
