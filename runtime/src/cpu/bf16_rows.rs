//! Activations as bfloat16 in the order of matrix units: the input of the tile kernels.

use super::Cpu;
use super::decode::bf16_to_f32;
use super::isa::Vectorized;
use super::shared::Shared;

/// Rows (tokens) of a tile.
pub(in crate::cpu) const TILE_ROWS: usize = 16;
/// Columns of a tile.
pub(in crate::cpu) const TILE_COLS: usize = 32;
/// Tiles whose rows are multiplied together: a strip.
pub(in crate::cpu) const TILES: usize = 2;
const STRIP_ROWS: usize = TILES * TILE_ROWS;
/// Rows are padded with zeros to a multiple of so many tiles: 256 columns, the largest block of weights.
pub(in crate::cpu) const CHUNK: usize = 8;
/// Multiply-adds that take as long as rounding a value, roughly.
const ROUND_WORK: usize = 16;

/// Some columns of some rows, row after row.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(in crate::cpu) struct Tile(pub(in crate::cpu) [[u16; TILE_COLS]; TILE_ROWS]);

impl Tile {
    pub(in crate::cpu) const ZERO: Tile = Tile([[0; TILE_COLS]; TILE_ROWS]);
}

/// 256 columns of a strip.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) struct Piece(pub(in crate::cpu) [[Tile; TILES]; CHUNK]);

impl Piece {
    const ZERO: Piece = Piece([[Tile::ZERO; TILES]; CHUNK]);
}

/// Rows of activations, each value rounded to the nearest bfloat16, ties to even (matrix units take subnormal ones for zeros). A buffer:
/// filled again and again, it only grows.
///
/// Two tiles of 16 rows and the same 32 columns follow each other, then come the same rows of the next 32 columns, up to 256; then
/// the same columns of the next 32 rows, and behind all rows the next 256 columns. So what a kernel reads again and again, some
/// columns of all rows, lies in one stretch of memory. Rows and columns are padded with zeros.
#[derive(Debug, Clone, Default)]
pub struct Bf16Rows {
    rows: usize,
    cols: usize,
    pieces: Vec<Piece>,
}

impl Bf16Rows {
    /// An empty buffer.
    pub fn new() -> Bf16Rows {
        Bf16Rows::default()
    }

    /// Replaces the contents by `x`: `rows` x `cols`, row major.
    ///
    /// # Panics
    /// When `x` has another length.
    pub fn round(&mut self, cpu: &Cpu, x: &[f32], rows: usize, cols: usize) {
        assert_eq!(x.len(), rows * cols, "activations are not {rows} x {cols}");
        (self.rows, self.cols) = (rows, cols);
        let (strips, chunks) = (self.strips(), self.chunks());
        if self.pieces.len() < strips * chunks {
            self.pieces.resize(strips * chunks, Piece::ZERO);
        }
        let pieces = Shared::new(&mut self.pieces);
        cpu.for_each(strips, x.len().saturating_mul(ROUND_WORK), |strip| {
            let rows = strip * STRIP_ROWS..rows.min((strip + 1) * STRIP_ROWS);
            let x = &x[rows.start * cols..rows.end * cols];
            for chunk in 0..chunks {
                let place = chunk * strips + strip;
                // SAFETY: every strip is filled by one task only.
                let piece = unsafe { &mut pieces.part(place..place + 1)[0] };
                cpu.isa().vectorize(RoundPiece { piece, x, cols, first: chunk * CHUNK * TILE_COLS });
            }
        });
    }

    /// Number of rows (tokens).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// True columns of a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// What became of a value.
    ///
    /// # Panics
    /// When there is no such row or column.
    pub fn value(&self, row: usize, col: usize) -> f32 {
        assert!(row < self.rows && col < self.cols, "no value {row}, {col}");
        let (strip, row) = (row / STRIP_ROWS, row % STRIP_ROWS);
        let (chunk, col) = (col / (CHUNK * TILE_COLS), col % (CHUNK * TILE_COLS));
        let pair = &self.chunk(chunk)[strip].0[col / TILE_COLS];
        bf16_to_f32(pair[row / TILE_ROWS].0[row % TILE_ROWS][col % TILE_COLS])
    }

    /// Strips of 32 rows.
    pub(in crate::cpu) fn strips(&self) -> usize {
        self.rows.div_ceil(STRIP_ROWS)
    }

    /// Chunks of 256 columns.
    fn chunks(&self) -> usize {
        self.cols.div_ceil(CHUNK * TILE_COLS)
    }

    /// 256 columns of all strips.
    pub(in crate::cpu) fn chunk(&self, chunk: usize) -> &[Piece] {
        let strips = self.strips();
        &self.pieces[chunk * strips..][..strips]
    }
}

struct RoundPiece<'a> {
    piece: &'a mut Piece,
    x: &'a [f32],
    cols: usize,
    first: usize,
}

impl Vectorized for RoundPiece<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let RoundPiece { piece, x, cols, first } = self;
        let rows = x.len() / cols;
        for row in 0..STRIP_ROWS {
            let x = if row < rows { &x[row * cols..][..cols] } else { &[] };
            let x = x.get(first..).unwrap_or_default();
            for (step, pair) in piece.0.iter_mut().enumerate() {
                let to = &mut pair[row / TILE_ROWS].0[row % TILE_ROWS];
                let rest = x.get(step * TILE_COLS..).unwrap_or_default();
                match rest.first_chunk::<TILE_COLS>() {
                    Some(full) => {
                        for (to, v) in to.iter_mut().zip(full) {
                            *to = rounded(*v);
                        }
                    }
                    None => {
                        *to = [0; TILE_COLS];
                        for (to, v) in to.iter_mut().zip(rest) {
                            *to = rounded(*v);
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn rounded(v: f32) -> u16 {
    let bits = v.to_bits();
    // A NaN stays one, whatever its low bits.
    let nearest = bits.wrapping_add(0x7FFF + (bits >> 16 & 1));
    ((if v.is_nan() { bits | 0x0040_0000 } else { nearest }) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Isa;

    #[test]
    fn values_are_rounded_as_half_rounds_them_on_every_instruction_set_and_padding_is_zero() {
        for (rows, cols) in [(1, 1), (17, 300), (33, 31), (64, 256)] {
            let x: Vec<f32> = (0..rows * cols)
                .map(|i| match i {
                    3 => f32::NAN,
                    4 => f32::INFINITY,
                    5 => f32::MAX,
                    6 => f32::from_bits(1),
                    _ => f32::from_bits((i as u32).wrapping_mul(2_654_435_761) & 0xBFFF_FFFF),
                })
                .collect();
            for isa in Isa::available() {
                let mut rounded = Bf16Rows::new();
                // What was there before must not show.
                rounded.round(&Cpu::new(isa), &vec![7.0; 70 * 600], 70, 600);
                rounded.round(&Cpu::new(isa), &x, rows, cols);
                let mut sum = 0;
                for (i, x) in x.iter().enumerate() {
                    let (value, expected) = (rounded.value(i / cols, i % cols), half::bf16::from_f32(*x));
                    assert_eq!(value.is_nan(), expected.is_nan());
                    assert!(value.is_nan() || value == expected.to_f32(), "{isa:?}: {x} became {value}");
                    sum += usize::from(value.to_bits() != 0);
                }
                let all = (0..rounded.chunks()).flat_map(|chunk| rounded.chunk(chunk));
                let tiles = all.flat_map(|piece| piece.0.as_flattened());
                let not_zero = tiles.flat_map(|tile| tile.0.as_flattened());
                assert_eq!(not_zero.filter(|v| **v != 0).count(), sum, "padding would add to results");
            }
        }
    }
}
