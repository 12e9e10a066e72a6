//! Products in bfloat16 by a matrix unit: what attention over many tokens asks of one.

#[cfg(test)]
use crate::lanes::LANES;
use crate::lanes::Lanes;

/// Columns of a product.
pub(crate) const COLUMNS: usize = 32;
/// Factors that a line has, and so what a step of a product sums up.
pub(crate) const STEP: usize = 32;

/// Some factors of a row.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct RowLine(pub(crate) [u16; STEP]);

impl RowLine {
    pub(crate) const ZERO: RowLine = RowLine([0; STEP]);
}

/// Two factors of 16 columns, the first in the low half.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct ColumnLine(pub(crate) [u32; COLUMNS / 2]);

/// The factors of 32 columns for a step: 16 lines for the first 16, then for the others.
pub(crate) type Columns = [[ColumnLine; STEP / 2]; 2];

pub(crate) const NO_COLUMNS: Columns = [[ColumnLine([0; COLUMNS / 2]); STEP / 2]; 2];

/// Where sums go: to 32 floats for each row, which are `stride` floats apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SumsOut {
    pub(crate) start: *mut f32,
    pub(crate) stride: usize,
}

/// A matrix unit. A trait so that all around it is tested on processors without one.
pub(crate) trait Bf16Unit {
    /// Rows of a product.
    const ROWS: usize;

    /// Sets the unit up for this thread until the value is dropped.
    ///
    /// # Safety
    /// The processor and the process must be allowed to use the unit; there must be no other value of a unit on this thread.
    unsafe fn new() -> Self;

    /// The products of [`Bf16Unit::ROWS`] rows with 32 columns, summed up over all steps of `columns`; with `ADD`, to what is in `out`.
    /// Row r has its lines from `rows[r * stride]` on. Sums are floats, in an order of the unit's own; subnormal factors count as
    /// zeros.
    ///
    /// # Panics
    /// When there are fewer lines.
    ///
    /// # Safety
    /// Behind `out` there must be room for the sums.
    unsafe fn multiply<const ADD: bool>(
        &mut self,
        rows: &[RowLine],
        stride: usize,
        columns: &[Columns],
        out: SumsOut,
    );

    /// Sets `lines` to `e^(score - origin)` of as many scores in bfloat16, those of 16 scores and of the next 16 in turn. Returns their
    /// sums in lanes: so where one score is far above all others, its rounding does not show. What is below `origin - 87` may be 0, and
    /// what is far above it infinite. As exact as bfloat16 asks for, by the unit's own arithmetic.
    fn weigh(&mut self, scores: &[Lanes], origin: f32, lines: &mut [RowLine]) -> Lanes;
}

/// The upper half of the nearest bfloat16, ties to even. Not for NaN.
#[inline(always)]
pub(crate) fn rounded(value: f32) -> u32 {
    let bits = value.to_bits();
    bits.wrapping_add(0x7FFF + (bits >> 16 & 1))
}

/// What a matrix unit does, in plain Rust.
#[cfg(test)]
pub(crate) struct EmulatedBf16;

#[cfg(test)]
impl Bf16Unit for EmulatedBf16 {
    const ROWS: usize = 32;

    unsafe fn new() -> EmulatedBf16 {
        EmulatedBf16
    }

    unsafe fn multiply<const ADD: bool>(
        &mut self,
        rows: &[RowLine],
        stride: usize,
        columns: &[Columns],
        out: SumsOut,
    ) {
        let factor = |bits: u32| f32::from_bits(bits << 16);
        for row in 0..Self::ROWS {
            for column in 0..COLUMNS {
                // SAFETY: the caller's promise.
                let out = unsafe { &mut *out.start.add(row * out.stride + column) };
                let mut sum = if ADD { *out } else { 0.0 };
                for (i, columns) in columns.iter().enumerate() {
                    let line = &rows[row * stride + i].0;
                    for (k, x) in line.iter().enumerate() {
                        let pair = columns[column / 16][k / 2].0[column % 16];
                        sum += factor(u32::from(*x)) * factor(pair >> (16 * (k % 2)) & 0xFFFF);
                    }
                }
                *out = sum;
            }
        }
    }

    fn weigh(&mut self, scores: &[Lanes], origin: f32, lines: &mut [RowLine]) -> Lanes {
        let mut totals = [0.0; LANES];
        for (line, scores) in lines.iter_mut().zip(scores.as_chunks::<2>().0) {
            for (i, to) in line.0.iter_mut().enumerate() {
                *to = (rounded(crate::math::exp(scores[i % 2][i / 2] - origin)) >> 16) as u16;
                totals[i / 2] += f32::from_bits(u32::from(*to) << 16);
            }
        }
        totals
    }
}
