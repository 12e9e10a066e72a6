//! Activations as 8-bit codes with a scale per 128 of them, in the order of matrix units: the input of the wide kernels.

use super::activations::ROUNDER;
use super::backend::Cpu;
use super::isa::Vectorized;
use super::lanes::largest_magnitude;
use super::shared::Shared;

/// Columns of a group, in which a row of weights has one scale: the largest block of weights.
pub const WIDE_GROUP: usize = 256;
/// Columns in which a row of activations has one: with fewer, sums are scaled more often; with more, results lose twice as much.
pub(crate) const WIDE_HALF: usize = 128;
/// Halves of a group.
pub(crate) const HALVES: usize = WIDE_GROUP / WIDE_HALF;
/// Rows (tokens) of a tile.
pub(crate) const TILE_ROWS: usize = 16;
/// Columns of a tile.
pub(crate) const TILE_COLS: usize = 64;
/// Tiles whose rows are multiplied together: a strip.
pub(crate) const TILES: usize = 2;
/// Rows of a strip.
pub(crate) const STRIP_ROWS: usize = TILES * TILE_ROWS;
/// Tiles of a group.
pub(crate) const STEPS: usize = WIDE_GROUP / TILE_COLS;
/// Multiply-adds that take as long as quantizing a value, roughly.
const QUANTIZE_WORK: usize = 32;

/// Some columns of some rows, row after row.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Tile(pub(crate) [[i8; TILE_COLS]; TILE_ROWS]);

impl Tile {
    pub(crate) const ZERO: Tile = Tile([[0; TILE_COLS]; TILE_ROWS]);
}

/// A group of every row of a strip.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Strip {
    pub(crate) codes: [[Tile; TILES]; STEPS],
    /// Of the rows in each half of the columns.
    pub(crate) scales: [[f32; STRIP_ROWS]; HALVES],
    /// The sum of the codes there, times -[`CODE_OFFSET`]: what sums of products begin with where weights have that added.
    pub(crate) starts: [[i32; STRIP_ROWS]; HALVES],
}

/// What is added to signed codes of weights where an instruction multiplies unsigned ones.
pub(crate) const CODE_OFFSET: i32 = 128;

impl Strip {
    const ZERO: Strip = Strip {
        codes: [[Tile::ZERO; TILES]; STEPS],
        scales: [[0.0; STRIP_ROWS]; HALVES],
        starts: [[0; STRIP_ROWS]; HALVES],
    };
}

/// Rows of activations as 8-bit codes with a scale per 128 of them. A buffer: filled again and again, it only grows.
///
/// Two tiles of 16 rows and the same 64 columns follow each other, then come the same rows of the next 64 columns, up to 256; then
/// the same columns of the next 32 rows, and behind all rows the next 256 columns. So what a kernel reads again and again, a group of
/// all rows, lies in one stretch of memory. Rows and columns are padded with zeros.
#[derive(Debug, Clone, Default)]
pub struct Int8x128Rows {
    rows: usize,
    cols: usize,
    strips: Vec<Strip>,
}

impl Int8x128Rows {
    /// An empty buffer.
    pub fn new() -> Int8x128Rows {
        Int8x128Rows::default()
    }

    /// Replaces the contents by `x`: `rows` x `cols`, row major.
    ///
    /// # Panics
    /// When `x` has another length.
    pub fn quantize(&mut self, cpu: &Cpu, x: &[f32], rows: usize, cols: usize) {
        assert_eq!(x.len(), rows * cols, "activations are not {rows} x {cols}");
        (self.rows, self.cols) = (rows, cols);
        let (strips, groups) = (self.strips(), self.groups());
        if self.strips.len() < strips * groups {
            self.strips.resize(strips * groups, Strip::ZERO);
        }
        let shared = Shared::new(&mut self.strips);
        cpu.for_each(strips, x.len().saturating_mul(QUANTIZE_WORK), |strip| {
            let rows = strip * STRIP_ROWS..rows.min((strip + 1) * STRIP_ROWS);
            let x = &x[rows.start * cols..rows.end * cols];
            cpu.isa().vectorize(QuantizeStrip { shared: &shared, strips, strip, groups, x, cols });
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

    /// What the code of one column stands for.
    ///
    /// # Panics
    /// When there is no such row or column.
    pub fn value(&self, row: usize, col: usize) -> f32 {
        assert!(row < self.rows && col < self.cols, "no value {row}, {col}");
        let strip = &self.group(col / WIDE_GROUP)[row / STRIP_ROWS];
        let (row, col) = (row % STRIP_ROWS, col % WIDE_GROUP);
        let tile = &strip.codes[col / TILE_COLS][row / TILE_ROWS];
        strip.scales[col / WIDE_HALF][row] * f32::from(tile.0[row % TILE_ROWS][col % TILE_COLS])
    }

    /// Strips of 32 rows.
    pub(crate) fn strips(&self) -> usize {
        self.rows.div_ceil(STRIP_ROWS)
    }

    /// Groups of a row.
    pub(crate) fn groups(&self) -> usize {
        self.cols.div_ceil(WIDE_GROUP)
    }

    /// A group of all rows, strip after strip.
    pub(crate) fn group(&self, group: usize) -> &[Strip] {
        let strips = self.strips();
        &self.strips[group * strips..][..strips]
    }
}

/// All groups of a strip of rows.
struct QuantizeStrip<'a> {
    shared: &'a Shared<'a, Strip>,
    strips: usize,
    strip: usize,
    groups: usize,
    x: &'a [f32],
    cols: usize,
}

impl Vectorized for QuantizeStrip<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let QuantizeStrip { shared, strips, strip, groups, x, cols } = self;
        let rows = x.len() / cols;
        let mut codes = [0; WIDE_HALF];
        // Row by row, as they come from afar.
        for row in 0..STRIP_ROWS {
            let x = if row < rows { &x[row * cols..][..cols] } else { &[] };
            for group in 0..groups {
                let place = group * strips + strip;
                // SAFETY: every strip is filled by one task only.
                let strip = unsafe { &mut shared.part(place..place + 1)[0] };
                for (half, steps) in strip.codes.chunks_exact_mut(STEPS / HALVES).enumerate() {
                    let rest = x.get(group * WIDE_GROUP + half * WIDE_HALF..).unwrap_or_default();
                    strip.scales[half][row] = match rest.first_chunk() {
                        Some(full) => quantize(full, &mut codes),
                        None => {
                            let mut padded = [0.0; WIDE_HALF];
                            padded[..rest.len()].copy_from_slice(rest);
                            quantize(&padded, &mut codes)
                        }
                    };
                    let sum: i32 = codes.iter().map(|code| i32::from(*code)).sum();
                    strip.starts[half][row] = -CODE_OFFSET * sum;
                    for (tiles, codes) in steps.iter_mut().zip(codes.as_chunks().0) {
                        tiles[row / TILE_ROWS].0[row % TILE_ROWS] = *codes;
                    }
                }
            }
        }
    }
}

/// Codes of values that share a scale: `scale = max|x| / 127`, `code = round_half_even(x * (127 / max|x|))`. Returns the scale: NaN
/// where a value is NaN or infinite, and zero where all are too small to have one.
#[inline(always)]
fn quantize(x: &[f32; WIDE_HALF], codes: &mut [i8; WIDE_HALF]) -> f32 {
    let top = largest_magnitude(x);
    let inverse = 127.0 / top;
    if !top.is_finite() || !inverse.is_finite() {
        *codes = [0; WIDE_HALF];
        return if top.is_finite() { 0.0 } else { f32::NAN };
    }
    for (code, v) in codes.iter_mut().zip(x) {
        *code = (v * inverse + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits()) as i8;
    }
    top / 127.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn codes_are_the_nearest_with_a_scale_per_128_columns_and_padding_is_zero() {
        for (rows, cols) in [(1, 1), (17, 300), (33, 31), (64, 256), (3, 700)] {
            let value =
                |i: usize| ((i * 7919) % 1009) as f32 * 0.013 - 6.0 + (i % cols / WIDE_HALF * 9) as f32;
            let x: Vec<f32> = (0..rows * cols).map(value).collect();
            for isa in Isa::available() {
                let mut wide = Int8x128Rows::new();
                // What was there before must not show.
                wide.quantize(&Cpu::new(isa), &vec![7.0; 70 * 800], 70, 800);
                wide.quantize(&Cpu::new(isa), &x, rows, cols);
                let mut not_zero = 0;
                for (row, x) in x.chunks_exact(cols).enumerate() {
                    for (place, x) in x.chunks(WIDE_HALF).enumerate() {
                        let scale = x.iter().fold(0.0f32, |top, v| top.max(v.abs())) / 127.0;
                        let strip = &wide.group(place / HALVES)[row / STRIP_ROWS];
                        let (half, of_strip) = (place % HALVES, row % STRIP_ROWS);
                        assert_eq!(strip.scales[half][of_strip], scale, "{isa:?}");
                        let mut sum = 0;
                        for (col, x) in x.iter().enumerate() {
                            let code = wide.value(row, place * WIDE_HALF + col) / scale;
                            sum += code.round() as i32;
                            not_zero += usize::from(code.round() != 0.0);
                            assert!((x / scale - code).abs() < 0.500_02, "{isa:?}: {x} became {code}");
                        }
                        assert_eq!(strip.starts[half][of_strip], -128 * sum, "{isa:?}");
                    }
                }
                let all = (0..wide.groups()).flat_map(|group| wide.group(group));
                let codes = all.flat_map(|strip| strip.codes.as_flattened()).flat_map(|t| t.0.as_flattened());
                assert_eq!(
                    codes.filter(|code| **code != 0).count(),
                    not_zero,
                    "padding would add to results"
                );
            }
        }
    }

    #[test]
    fn a_damaged_value_damages_its_half_only() {
        let mut x = [1.0; 300];
        x[7] = f32::INFINITY;
        let mut wide = Int8x128Rows::new();
        wide.quantize(&Cpu::new(Isa::best()), &x, 1, 300);
        assert!(wide.value(0, 8).is_nan());
        assert!((wide.value(0, 128) - 1.0).abs() < 1e-6);
        wide.quantize(&Cpu::new(Isa::best()), &[1e-38; 3], 1, 3);
        assert_eq!(wide.value(0, 1), 0.0, "too small for a scale");
    }
}
