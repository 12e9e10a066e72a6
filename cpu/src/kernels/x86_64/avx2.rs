//! Panels with AVX2, and with the VNNI instructions of its own encoding: two registers for each value of [`PanelIsa`].

use core::arch::x86_64::*;

use super::{batch, fetch};
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::unpack::{Ahead, PanelIsa};
use crate::vector::{CacheLevel, prefetch_lines};

/// Rows 0 to 7 and 8 to 15.
#[derive(Clone, Copy)]
struct Ints(__m256i, __m256i);

/// Rows 0 to 7 and 8 to 15.
#[derive(Clone, Copy)]
struct Floats(__m256, __m256);

struct Avx2<const VNNI: bool>;

impl<const VNNI: bool> Avx2<VNNI> {
    /// The four codes at `x` in every lane.
    ///
    /// # Safety
    /// As for [`PanelIsa`].
    #[inline(always)]
    unsafe fn broadcast(x: *const i8) -> __m256i {
        // SAFETY: the promises of `PanelIsa`.
        unsafe { _mm256_set1_epi32(x.cast::<i32>().read_unaligned()) }
    }
}

// SAFETY of all blocks: the trait's promises, which each function passes on.
impl<const VNNI: bool> PanelIsa for Avx2<VNNI> {
    type Codes = Ints;
    /// Without VNNI sums of two products in 16 bits: eight of at most 2 * 15 * 127 stay below 2^15.
    type Dots = Ints;
    type Ints = Ints;
    type Floats = Floats;

    const OFFSET: u8 = if VNNI { 128 } else { 0 };

    fn ahead() -> Ahead {
        fetch::ahead()
    }

    #[inline(always)]
    unsafe fn fetch(address: *const u8, bytes: usize, level: CacheLevel) {
        prefetch_lines(address, bytes, level);
    }

    #[inline(always)]
    unsafe fn load(codes: *const u8) -> Ints {
        // SAFETY: as above.
        unsafe { Ints(_mm256_loadu_si256(codes.cast()), _mm256_loadu_si256(codes.add(32).cast())) }
    }

    #[inline(always)]
    unsafe fn shift_right(codes: Ints, bits: usize) -> Ints {
        // SAFETY: as above.
        unsafe {
            let bits = _mm_cvtsi32_si128(bits as i32);
            Ints(_mm256_srl_epi16(codes.0, bits), _mm256_srl_epi16(codes.1, bits))
        }
    }

    #[inline(always)]
    unsafe fn shift_left(codes: Ints, bits: usize) -> Ints {
        // SAFETY: as above.
        unsafe {
            let bits = _mm_cvtsi32_si128(bits as i32);
            Ints(_mm256_sll_epi16(codes.0, bits), _mm256_sll_epi16(codes.1, bits))
        }
    }

    #[inline(always)]
    unsafe fn and(codes: Ints, mask: u8) -> Ints {
        // SAFETY: as above.
        unsafe {
            let mask = _mm256_set1_epi8(mask as i8);
            Ints(_mm256_and_si256(codes.0, mask), _mm256_and_si256(codes.1, mask))
        }
    }

    #[inline(always)]
    unsafe fn or(a: Ints, b: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { Ints(_mm256_or_si256(a.0, b.0), _mm256_or_si256(a.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn xor(a: Ints, b: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { Ints(_mm256_xor_si256(a.0, b.0), _mm256_xor_si256(a.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn add_codes(a: Ints, b: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { Ints(_mm256_add_epi8(a.0, b.0), _mm256_add_epi8(a.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn splat_codes(code: u8) -> Ints {
        // SAFETY: as above.
        unsafe { Ints(_mm256_set1_epi8(code as i8), _mm256_set1_epi8(code as i8)) }
    }

    #[inline(always)]
    unsafe fn carry(codes: Ints, before: Ints) -> Ints {
        // SAFETY: as above.
        unsafe {
            let first = (_mm256_slli_epi32::<8>(codes.0), _mm256_srli_epi32::<24>(before.0));
            let second = (_mm256_slli_epi32::<8>(codes.1), _mm256_srli_epi32::<24>(before.1));
            Ints(_mm256_or_si256(first.0, first.1), _mm256_or_si256(second.0, second.1))
        }
    }

    #[inline(always)]
    unsafe fn table(entries: &[u8; 16]) -> Ints {
        // SAFETY: as above.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(entries.as_ptr().cast()));
            Ints(table, table)
        }
    }

    #[inline(always)]
    unsafe fn lookup(table: Ints, codes: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { Ints(_mm256_shuffle_epi8(table.0, codes.0), _mm256_shuffle_epi8(table.1, codes.1)) }
    }

    #[inline(always)]
    unsafe fn choose(plane: Ints, bit: usize, clear: Ints, set: Ints) -> Ints {
        // SAFETY: as above.
        unsafe {
            // The instruction looks at the highest bit of a byte.
            let plane = Self::shift_left(plane, 7 - bit);
            Ints(_mm256_blendv_epi8(clear.0, set.0, plane.0), _mm256_blendv_epi8(clear.1, set.1, plane.1))
        }
    }

    #[inline(always)]
    unsafe fn no_dots() -> Ints {
        // SAFETY: as above.
        unsafe { Self::no_ints() }
    }

    #[inline(always)]
    unsafe fn dot(dots: Ints, codes: Ints, x: *const i8) -> Ints {
        // SAFETY: as above.
        unsafe {
            let x = Self::broadcast(x);
            if VNNI {
                Ints(_mm256_dpbusd_avx_epi32(dots.0, codes.0, x), _mm256_dpbusd_avx_epi32(dots.1, codes.1, x))
            } else {
                let pairs = Ints(_mm256_maddubs_epi16(codes.0, x), _mm256_maddubs_epi16(codes.1, x));
                Ints(_mm256_add_epi16(dots.0, pairs.0), _mm256_add_epi16(dots.1, pairs.1))
            }
        }
    }

    #[inline(always)]
    unsafe fn ints(dots: Ints) -> Ints {
        // SAFETY: as above.
        unsafe {
            if VNNI {
                return dots;
            }
            let one = _mm256_set1_epi16(1);
            Ints(_mm256_madd_epi16(dots.0, one), _mm256_madd_epi16(dots.1, one))
        }
    }

    #[inline(always)]
    unsafe fn no_ints() -> Ints {
        // SAFETY: as above.
        unsafe { Ints(_mm256_setzero_si256(), _mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn dot_signed(ints: Ints, codes: Ints, x: *const i8) -> Ints {
        // SAFETY: as above.
        unsafe {
            let x = Self::broadcast(x);
            if VNNI {
                // The instruction wants unsigned codes, whence the offset.
                Ints(_mm256_dpbusd_avx_epi32(ints.0, codes.0, x), _mm256_dpbusd_avx_epi32(ints.1, codes.1, x))
            } else {
                // The sign goes to x: a pair of products is then at most 2 * 128 * 127, below the 32767 at which the
                // instruction saturates.
                let low = _mm256_maddubs_epi16(_mm256_abs_epi8(codes.0), _mm256_sign_epi8(x, codes.0));
                let high = _mm256_maddubs_epi16(_mm256_abs_epi8(codes.1), _mm256_sign_epi8(x, codes.1));
                let one = _mm256_set1_epi16(1);
                let (low, high) = (_mm256_madd_epi16(low, one), _mm256_madd_epi16(high, one));
                Ints(_mm256_add_epi32(ints.0, low), _mm256_add_epi32(ints.1, high))
            }
        }
    }

    #[inline(always)]
    unsafe fn add_ints(a: Ints, b: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { Ints(_mm256_add_epi32(a.0, b.0), _mm256_add_epi32(a.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn splat_ints(value: i32) -> Ints {
        // SAFETY: as above.
        unsafe {
            let value = _mm256_set1_epi32(value);
            Ints(value, value)
        }
    }

    #[inline(always)]
    unsafe fn bytes(bytes: *const u8) -> Ints {
        // SAFETY: as above.
        unsafe {
            let (low, high) = (_mm_loadl_epi64(bytes.cast()), _mm_loadl_epi64(bytes.add(8).cast()));
            Ints(_mm256_cvtepi8_epi32(low), _mm256_cvtepi8_epi32(high))
        }
    }

    #[inline(always)]
    unsafe fn even(ints: Ints) -> Ints {
        // SAFETY: as above.
        unsafe {
            let mask = _mm256_set1_epi32(!1);
            Ints(_mm256_and_si256(ints.0, mask), _mm256_and_si256(ints.1, mask))
        }
    }

    #[inline(always)]
    unsafe fn where_odd(ints: Ints, floats: Floats) -> Floats {
        // SAFETY: as above.
        unsafe {
            // The instruction looks at the highest bit.
            let first = _mm256_castsi256_ps(_mm256_slli_epi32::<31>(ints.0));
            let second = _mm256_castsi256_ps(_mm256_slli_epi32::<31>(ints.1));
            let zero = _mm256_setzero_ps();
            Floats(_mm256_blendv_ps(zero, floats.0, first), _mm256_blendv_ps(zero, floats.1, second))
        }
    }

    #[inline(always)]
    unsafe fn halves(halves: *const u8) -> Floats {
        // SAFETY: as above.
        unsafe {
            let (low, high) = (_mm_loadu_si128(halves.cast()), _mm_loadu_si128(halves.add(16).cast()));
            Floats(_mm256_cvtph_ps(low), _mm256_cvtph_ps(high))
        }
    }

    #[inline(always)]
    unsafe fn floats(ints: Ints) -> Floats {
        // SAFETY: as above.
        unsafe { Floats(_mm256_cvtepi32_ps(ints.0), _mm256_cvtepi32_ps(ints.1)) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Floats {
        // SAFETY: as above.
        unsafe { Floats(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
    }

    #[inline(always)]
    unsafe fn add(a: Floats, b: Floats) -> Floats {
        // SAFETY: as above.
        unsafe { Floats(_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn mul(a: Floats, b: Floats) -> Floats {
        // SAFETY: as above.
        unsafe { Floats(_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
    }

    #[inline(always)]
    unsafe fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
        // SAFETY: as above.
        unsafe { Floats(_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)) }
    }

    #[inline(always)]
    unsafe fn store(floats: Floats, out: *mut f32) {
        // SAFETY: as above.
        unsafe {
            _mm256_storeu_ps(out, floats.0);
            _mm256_storeu_ps(out.add(8), floats.1);
        }
    }
}

/// The panel product for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); the processor must have AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe { batch::matmul::<Avx2<false>, 4, QUANT>(task, out) }
}

/// [`matmul`] with AVX-VNNI.
///
/// # Safety
/// As for [`matmul`], and the processor must have AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) unsafe fn matmul_vnni<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe { batch::matmul::<Avx2<true>, 4, QUANT>(task, out) }
}
