//! Products of bytes by the vector instructions of AVX-512 VNNI: eight rows times 32 columns, whose sums stay in registers.
//! From the manual: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (VPDPBUSD).

use core::arch::x86_64::*;

use super::batch::opaque;
use crate::byte_products::{ByteProducts, QUAD, QuadLine, Quads, ROWS, WholesOut};

/// Rows that are multiplied at a time.
const AT_ONCE: usize = 8;
/// Registers of a row's sums.
const HALVES: usize = 2;

/// The vector units of a processor with AVX-512 F and VNNI.
pub(crate) struct Avx512Bytes(());

impl ByteProducts for Avx512Bytes {
    #[inline(always)]
    unsafe fn new() -> Avx512Bytes {
        Avx512Bytes(())
    }

    #[inline(always)]
    unsafe fn multiply(&mut self, rows: &[u8], stride: usize, columns: &[Quads], out: WholesOut) {
        assert!(rows.len() >= (ROWS - 1) * stride + QUAD * columns.len(), "too few bytes");
        // SAFETY: the value proves that the processor has the instructions; the bytes have just been counted, and the room is the
        // caller's promise.
        unsafe { products(rows.as_ptr(), stride, columns, out) }
    }
}

/// # Safety
/// As for [`ByteProducts::multiply`]; row r must have its bytes from `rows + r * stride` on.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn products(rows: *const u8, stride: usize, columns: &[Quads], out: WholesOut) {
    for first in (0..ROWS).step_by(AT_ONCE) {
        // SAFETY: the caller's promises; a line of columns is a register.
        unsafe {
            let mut sums = [[_mm512_setzero_si512(); HALVES]; AT_ONCE];
            let mut quads = rows.add(first * stride);
            let mut lines = columns.as_ptr();
            let end = opaque(lines.add(columns.len()));
            while lines != end {
                let factors = [line(&raw const (*lines)[0]), line(&raw const (*lines)[1])];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let quad = _mm512_set1_epi32(quads.add(row * stride).cast::<i32>().read_unaligned());
                    for (sum, factors) in sums.iter_mut().zip(factors) {
                        *sum = _mm512_dpbusd_epi32(*sum, quad, factors);
                    }
                }
                (lines, quads) = (lines.add(1), quads.add(QUAD));
            }
            for (row, sums) in sums.into_iter().enumerate() {
                let out = out.start.add((first + row) * out.stride);
                _mm512_storeu_si512(out.cast(), sums[0]);
                _mm512_storeu_si512(out.add(16).cast(), sums[1]);
            }
        }
    }
}

/// A line of columns.
///
/// # Safety
/// `line` must point to one; to be called from a function compiled with AVX-512 F.
#[inline(always)]
unsafe fn line(line: *const QuadLine) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_loadu_si512(line.cast()) }
}
