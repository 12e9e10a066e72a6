//! Activations as 8-bit codes, 32 at a time: the input of the int8 kernels.

use super::backend::Cpu;
use super::isa::Vectorized;
use super::lanes::largest_magnitude;

/// Values that share one scale, whatever the block size of the weights.
pub const ACT_BLOCK: usize = 32;

/// What kernels add to signed weights where they multiply unsigned ones with signed activations.
pub(crate) const WEIGHT_OFFSET: u8 = 128;

/// Rows are padded with zero codes to a multiple of this, the largest block of weights.
const ROW_PADDING: usize = 256;
/// Bytes between rows: a row starts at an odd multiple of a cache line, so that rows of a power of two do not fall on the same
/// few places of a cache.
const ROW_GAP: usize = 64;
/// Rows of one task: their scales fill a cache line.
const TASK_ROWS: usize = 16;
/// Multiply-adds that take as long as quantizing a value, roughly.
const QUANTIZE_WORK: usize = 32;

/// 1.5 * 2^23: added to a number below 2^22 it rounds that to an integer, ties to even, in the low bits of the sum.
pub(super) const ROUNDER: f32 = 12_582_912.0;

/// Rows of activations as 8-bit codes. A buffer: filled again and again, it only grows.
///
/// A group is 32 values with one scale: `dx = max|x| / 127`, `code = round_half_even(x / dx)`. With the codes goes
/// `sx = dx * (sum of the codes)`, which the weights' minimum is multiplied with. A group that holds a NaN or an infinity
/// gets the scale NaN, so that the damage shows in the result; a group too small to have a scale gets zeros.
#[derive(Debug, Clone, Default)]
pub struct Int8Rows {
    rows: usize,
    cols: usize,
    codes: Vec<i8>,
    scales: Vec<f32>,
    sums: Vec<f32>,
    starts: Vec<i32>,
}

impl Int8Rows {
    /// An empty buffer.
    pub fn new() -> Int8Rows {
        Int8Rows::default()
    }

    /// Bytes of a buffer of so many rows of up to `cols` columns.
    pub fn bytes(rows: usize, cols: usize) -> u64 {
        let shape = Int8Rows { rows, cols, ..Int8Rows::default() };
        let per_group = 2 * size_of::<f32>() + size_of::<i32>();
        (rows as u64).saturating_mul((shape.stride() + shape.groups() * per_group) as u64)
    }

    /// Replaces the contents by `x`: `rows` x `cols`, row major.
    ///
    /// # Panics
    /// When `x` has another length.
    pub fn quantize(&mut self, cpu: &Cpu, x: &[f32], rows: usize, cols: usize) {
        assert_eq!(x.len(), rows * cols, "activations are not {rows} x {cols}");
        (self.rows, self.cols) = (rows, cols);
        let (stride, groups) = (self.stride(), self.groups());
        grow(&mut self.codes, rows * stride);
        grow(&mut self.scales, rows * groups);
        grow(&mut self.sums, rows * groups);
        grow(&mut self.starts, rows * groups);
        let into = RowsOut {
            codes: self.codes.as_mut_ptr(),
            scales: self.scales.as_mut_ptr(),
            sums: self.sums.as_mut_ptr(),
            starts: self.starts.as_mut_ptr(),
            rows,
            stride,
        };
        let work = x.len().saturating_mul(QUANTIZE_WORK);
        cpu.for_each(rows.div_ceil(TASK_ROWS), work, |task| {
            let first = task * TASK_ROWS;
            for row in first..rows.min(first + TASK_ROWS) {
                cpu.isa().vectorize(QuantizeRow { into: &into, x: &x[row * cols..][..cols], row });
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

    /// Codes from one row to the next: the columns padded with zeros to a multiple of 256, and a gap.
    pub fn stride(&self) -> usize {
        self.cols.next_multiple_of(ROW_PADDING) + ROW_GAP
    }

    /// Groups of a row, padding included.
    pub fn groups(&self) -> usize {
        self.cols.next_multiple_of(ROW_PADDING) / ACT_BLOCK
    }

    /// All codes: rows x stride.
    pub fn codes(&self) -> &[i8] {
        &self.codes[..self.rows * self.stride()]
    }

    /// What the code of one column stands for.
    ///
    /// # Panics
    /// When there is no such row or column.
    pub fn value(&self, row: usize, col: usize) -> f32 {
        let code = f32::from(self.codes()[row * self.stride() + col]);
        self.scales()[col / ACT_BLOCK * self.rows + row] * code
    }

    /// All scales `dx`: groups x rows, so that the scales of one group lie together for several tokens.
    pub fn scales(&self) -> &[f32] {
        &self.scales[..self.rows * self.groups()]
    }

    /// All sums `sx`: groups x rows.
    pub fn sums(&self) -> &[f32] {
        &self.sums[..self.rows * self.groups()]
    }

    /// What sums of products begin with to be right where 128 has been added to every weight: -128 times the sum of the codes of each
    /// group, groups x rows.
    pub fn starts(&self) -> &[i32] {
        &self.starts[..self.rows * self.groups()]
    }
}

fn grow<T: Clone + Default>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
}

/// The buffers, filled row by row from several threads. Rows are apart in all of them, though not in one slice.
struct RowsOut {
    codes: *mut i8,
    scales: *mut f32,
    sums: *mut f32,
    starts: *mut i32,
    rows: usize,
    stride: usize,
}

// SAFETY: every row is quantized by one task only, and a row's places are its own.
unsafe impl Sync for RowsOut {}

struct QuantizeRow<'a> {
    into: &'a RowsOut,
    x: &'a [f32],
    row: usize,
}

impl Vectorized for QuantizeRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let QuantizeRow { into: &RowsOut { codes, scales, sums, starts, rows, stride }, x, row } = self;
        let padded = stride - ROW_GAP;
        // SAFETY: the buffers have `rows` rows, of which this is one, and no one else has its codes.
        let codes = unsafe { std::slice::from_raw_parts_mut(codes.add(row * stride), padded) };
        let (codes, _) = codes.as_chunks_mut::<ACT_BLOCK>();
        for (group, codes) in codes.iter_mut().enumerate() {
            let rest = x.get(group * ACT_BLOCK..).unwrap_or_default();
            let (scale, sum) = match rest.first_chunk() {
                Some(full) => quantize_group(full, codes),
                None => {
                    let mut padded = [0.0; ACT_BLOCK];
                    padded[..rest.len()].copy_from_slice(rest);
                    quantize_group(&padded, codes)
                }
            };
            let place = group * rows + row;
            // SAFETY: groups x rows places are there, and this one is the row's.
            unsafe {
                *scales.add(place) = scale;
                *sums.add(place) = scale * sum as f32;
                *starts.add(place) = -i32::from(WEIGHT_OFFSET) * sum;
            }
        }
    }
}

/// Codes of values that share a scale: that, and the sum of the codes.
#[inline(always)]
fn quantize_group(x: &[f32; ACT_BLOCK], codes: &mut [i8; ACT_BLOCK]) -> (f32, i32) {
    let scale = largest_magnitude(x) / 127.0;
    if !scale.is_finite() || scale == 0.0 {
        *codes = [0; ACT_BLOCK];
        return (if scale == 0.0 { 0.0 } else { f32::NAN }, 0);
    }
    let mut sum = 0;
    for (code, v) in codes.iter_mut().zip(x) {
        // Only a subnormal scale, which has few bits itself, lets a quotient exceed 127.
        let q = (v / scale).clamp(-127.0, 127.0) + ROUNDER;
        let q = (q.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
        sum += q;
        *code = q as i8;
    }
    (scale, sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    fn quantized(x: &[f32]) -> Int8Rows {
        let mut rows = Int8Rows::new();
        rows.quantize(&Cpu::new(Isa::best()), x, 1, x.len());
        rows
    }

    #[test]
    fn a_code_is_the_nearest_multiple_of_the_scale_and_ties_go_to_even() {
        let rows = quantized(&[127.0, 0.5, 1.5, -2.5, -127.0, 3.49]);
        assert_eq!(rows.codes()[..6], [127, 0, 2, -2, -127, 3]);
        assert_eq!((rows.scales()[0], rows.sums()[0]), (1.0, 3.0));
        assert!(rows.codes()[6..].iter().all(|&c| c == 0), "padding would add to results");
        assert_eq!(rows.stride(), 256 + 64);
    }

    #[test]
    fn zeros_stay_zeros_and_damage_shows() {
        assert_eq!(quantized(&[0.0; 40]).scales()[..2], [0.0, 0.0]);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let rows = quantized(&[1.0, bad, 2.0]);
            assert!(rows.scales()[0].is_nan() && rows.sums()[0].is_nan());
            assert_eq!(rows.scales()[1], 0.0);
        }
    }

    #[test]
    fn the_smallest_and_the_largest_numbers_have_codes() {
        let tiny = f32::from_bits(189);
        assert_eq!(quantized(&[tiny, -tiny]).codes()[..2], [127, -127]);
        assert_eq!(quantized(&[f32::MAX, -f32::MAX]).codes()[..2], [127, -127]);
        assert_eq!(quantized(&[f32::from_bits(1)]).codes()[0], 0);
    }

    #[test]
    fn a_reused_buffer_keeps_nothing_of_its_last_contents() {
        let mut rows = Int8Rows::new();
        let cpu = Cpu::new(Isa::best());
        rows.quantize(&cpu, &[1.0; 900], 3, 300);
        rows.quantize(&cpu, &[2.0; 33], 1, 33);
        let fresh = quantized(&[2.0; 33]);
        assert_eq!(rows.codes()[..256], fresh.codes()[..256]);
        assert_eq!((rows.scales(), rows.sums()), (fresh.scales(), fresh.sums()));
        assert_eq!(rows.starts(), fresh.starts());
    }

    #[test]
    fn every_instruction_set_makes_the_same_codes() {
        let x: Vec<f32> = (0..3 * 333).map(|i| ((i * 7919) % 1009) as f32 * 0.013 - 6.0).collect();
        let mut expected = Int8Rows::new();
        expected.quantize(&Cpu::new(Isa::SCALAR), &x, 3, 333);
        for isa in Isa::available() {
            let mut rows = Int8Rows::new();
            rows.quantize(&Cpu::new(isa), &x, 3, 333);
            for (a, b) in rows.codes().chunks(rows.stride()).zip(expected.codes().chunks(rows.stride())) {
                assert_eq!(a[..333], b[..333], "{isa:?}");
            }
            assert_eq!(rows.starts(), expected.starts(), "{isa:?}");
            assert_eq!(rows.scales(), expected.scales(), "{isa:?}");
            assert_eq!(rows.sums(), expected.sums(), "{isa:?}");
        }
    }
}
