//! Products in bfloat16 by the vector instructions of AVX-512 BF16: eight rows times 32 columns, whose sums stay in registers.
//! From the manual: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (VDPBF16PS).

use core::arch::x86_64::*;
use core::mem::transmute;

use super::batch::opaque;
use super::weights_bf16::weigh;
use crate::bf16_unit::{Bf16Unit, ColumnLine, Columns, RowLine, STEP, SumsOut};
use crate::lanes::Lanes;

/// Rows that are multiplied at a time.
const AT_ONCE: usize = 8;
/// Registers of a row's sums.
const HALVES: usize = 2;

/// The vector units of a processor with AVX-512 F and BF16.
pub(crate) struct Avx512Bf16(());

impl Bf16Unit for Avx512Bf16 {
    /// Their scores stay in the nearest cache.
    const ROWS: usize = 16;

    #[inline(always)]
    unsafe fn new() -> Avx512Bf16 {
        Avx512Bf16(())
    }

    #[inline(always)]
    unsafe fn multiply<const ADD: bool>(
        &mut self,
        rows: &[RowLine],
        stride: usize,
        columns: &[Columns],
        out: SumsOut,
    ) {
        assert!(rows.len() >= (Self::ROWS - 1) * stride + columns.len(), "too few lines");
        // SAFETY: the value proves that the processor has the instructions; the lines have just been counted, and the room is the
        // caller's promise.
        unsafe { products::<ADD>(rows.as_ptr(), stride, columns, out) }
    }

    #[inline(always)]
    fn weigh(&mut self, scores: &[Lanes], origin: f32, lines: &mut [RowLine]) -> Lanes {
        // SAFETY: the value proves that the processor has the instructions.
        unsafe { weigh(scores, origin, lines) }
    }
}

/// # Safety
/// As for [`Bf16Unit::multiply`]; row r must have its lines from `rows + r * stride` on.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn products<const ADD: bool>(rows: *const RowLine, stride: usize, columns: &[Columns], out: SumsOut) {
    for first in (0..Avx512Bf16::ROWS).step_by(AT_ONCE) {
        // SAFETY: the caller's promises; a line of columns is a register.
        unsafe {
            let out_of_row = |row: usize| out.start.add((first + row) * out.stride);
            let mut sums = [[_mm512_setzero_ps(); HALVES]; AT_ONCE];
            if ADD {
                for (row, sums) in sums.iter_mut().enumerate() {
                    *sums = [0, 16].map(|column| _mm512_loadu_ps(out_of_row(row).add(column)));
                }
            }
            for (i, columns) in columns.iter().enumerate() {
                let mut pairs = rows.add(first * stride + i).cast::<i32>();
                let mut lines = columns[0].as_ptr();
                let end = opaque(lines.add(STEP / 2));
                while lines != end {
                    let factors = [line(lines), line(lines.add(STEP / 2))];
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let pair = _mm512_set1_epi32(*pairs.byte_add(row * stride * size_of::<RowLine>()));
                        for (sum, factors) in sums.iter_mut().zip(factors) {
                            *sum = _mm512_dpbf16_ps(*sum, factors, transmute::<__m512i, __m512bh>(pair));
                        }
                    }
                    (lines, pairs) = (lines.add(1), pairs.add(1));
                }
            }
            for (row, sums) in sums.into_iter().enumerate() {
                _mm512_storeu_ps(out_of_row(row), sums[0]);
                _mm512_storeu_ps(out_of_row(row).add(16), sums[1]);
            }
        }
    }
}

/// A line of columns.
///
/// # Safety
/// `line` must point to one; to be called from a function compiled with AVX-512 F and BF16.
#[inline(always)]
unsafe fn line(line: *const ColumnLine) -> __m512bh {
    // SAFETY: the caller's promise.
    unsafe { transmute::<__m512i, __m512bh>(_mm512_loadu_si512(line.cast())) }
}
