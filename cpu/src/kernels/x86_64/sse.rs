//! Panels with SSSE3 and SSE4.1, for processors before AVX2: four registers for each value of [`PanelIsa`].

use core::arch::x86_64::*;

use super::{batch, fetch};
use crate::float16::f16_to_f32;
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::unpack::{Ahead, PanelIsa};
use crate::vector::{CacheLevel, prefetch_lines};

/// Rows 0 to 3, 4 to 7, 8 to 11, 12 to 15.
type Ints = [__m128i; 4];
type Floats = [__m128; 4];

struct Sse;

// SAFETY of all blocks: the trait's promises, which each function passes on.
impl PanelIsa for Sse {
    type Codes = Ints;
    /// Sums of two products in 16 bits: eight of at most 2 * 15 * 127 stay below 2^15.
    type Dots = Ints;
    type Ints = Ints;
    type Floats = Floats;

    const OFFSET: u8 = 0;

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
        unsafe {
            [
                _mm_loadu_si128(codes.cast()),
                _mm_loadu_si128(codes.add(16).cast()),
                _mm_loadu_si128(codes.add(32).cast()),
                _mm_loadu_si128(codes.add(48).cast()),
            ]
        }
    }

    #[inline(always)]
    unsafe fn shift_right(codes: Ints, bits: usize) -> Ints {
        // SAFETY: as above.
        unsafe {
            let bits = _mm_cvtsi32_si128(bits as i32);
            [
                _mm_srl_epi16(codes[0], bits),
                _mm_srl_epi16(codes[1], bits),
                _mm_srl_epi16(codes[2], bits),
                _mm_srl_epi16(codes[3], bits),
            ]
        }
    }

    #[inline(always)]
    unsafe fn shift_left(codes: Ints, bits: usize) -> Ints {
        // SAFETY: as above.
        unsafe {
            let bits = _mm_cvtsi32_si128(bits as i32);
            [
                _mm_sll_epi16(codes[0], bits),
                _mm_sll_epi16(codes[1], bits),
                _mm_sll_epi16(codes[2], bits),
                _mm_sll_epi16(codes[3], bits),
            ]
        }
    }

    #[inline(always)]
    unsafe fn and(codes: Ints, mask: u8) -> Ints {
        // SAFETY: as above.
        unsafe {
            let mask = _mm_set1_epi8(mask as i8);
            [
                _mm_and_si128(codes[0], mask),
                _mm_and_si128(codes[1], mask),
                _mm_and_si128(codes[2], mask),
                _mm_and_si128(codes[3], mask),
            ]
        }
    }

    #[inline(always)]
    unsafe fn or(a: Ints, b: Ints) -> Ints {
        // SAFETY: as above.
        unsafe {
            [
                _mm_or_si128(a[0], b[0]),
                _mm_or_si128(a[1], b[1]),
                _mm_or_si128(a[2], b[2]),
                _mm_or_si128(a[3], b[3]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn xor(a: Ints, b: Ints) -> Ints {
        // SAFETY: as above.
        unsafe {
            [
                _mm_xor_si128(a[0], b[0]),
                _mm_xor_si128(a[1], b[1]),
                _mm_xor_si128(a[2], b[2]),
                _mm_xor_si128(a[3], b[3]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn add_codes(a: Ints, b: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { each!(i => _mm_add_epi8(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn splat_codes(code: u8) -> Ints {
        // SAFETY: as above.
        unsafe { [_mm_set1_epi8(code as i8); 4] }
    }

    #[inline(always)]
    unsafe fn carry(codes: Ints, before: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { each!(i => _mm_or_si128(_mm_slli_epi32::<8>(codes[i]), _mm_srli_epi32::<24>(before[i]))) }
    }

    #[inline(always)]
    unsafe fn table(entries: &[u8; 16]) -> Ints {
        // SAFETY: as above.
        unsafe { [_mm_loadu_si128(entries.as_ptr().cast()); 4] }
    }

    #[inline(always)]
    unsafe fn lookup(table: Ints, codes: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { each!(i => _mm_shuffle_epi8(table[i], codes[i])) }
    }

    #[inline(always)]
    unsafe fn choose(plane: Ints, bit: usize, clear: Ints, set: Ints) -> Ints {
        // SAFETY: as above.
        unsafe {
            // The instruction looks at the highest bit of a byte.
            let plane = Self::shift_left(plane, 7 - bit);
            each!(i => _mm_blendv_epi8(clear[i], set[i], plane[i]))
        }
    }

    #[inline(always)]
    unsafe fn no_dots() -> Ints {
        // SAFETY: as above.
        unsafe { [_mm_setzero_si128(); 4] }
    }

    #[inline(always)]
    unsafe fn dot(dots: Ints, codes: Ints, x: *const i8) -> Ints {
        // SAFETY: as above.
        unsafe {
            let x = _mm_set1_epi32(x.cast::<i32>().read_unaligned());
            each!(i => _mm_add_epi16(dots[i], _mm_maddubs_epi16(codes[i], x)))
        }
    }

    #[inline(always)]
    unsafe fn ints(dots: Ints) -> Ints {
        // SAFETY: as above.
        unsafe {
            let one = _mm_set1_epi16(1);
            [
                _mm_madd_epi16(dots[0], one),
                _mm_madd_epi16(dots[1], one),
                _mm_madd_epi16(dots[2], one),
                _mm_madd_epi16(dots[3], one),
            ]
        }
    }

    #[inline(always)]
    unsafe fn no_ints() -> Ints {
        // SAFETY: as above.
        unsafe { [_mm_setzero_si128(); 4] }
    }

    #[inline(always)]
    unsafe fn dot_signed(ints: Ints, codes: Ints, x: *const i8) -> Ints {
        // SAFETY: as above.
        unsafe {
            let x = _mm_set1_epi32(x.cast::<i32>().read_unaligned());
            // The sign goes to x: a pair of products is then at most 2 * 128 * 127, below the 32767 at which the instruction
            // saturates.
            each!(i => {
                let pairs = _mm_maddubs_epi16(_mm_abs_epi8(codes[i]), _mm_sign_epi8(x, codes[i]));
                _mm_add_epi32(ints[i], _mm_madd_epi16(pairs, _mm_set1_epi16(1)))
            })
        }
    }

    #[inline(always)]
    unsafe fn add_ints(a: Ints, b: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { each!(i => _mm_add_epi32(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn splat_ints(value: i32) -> Ints {
        // SAFETY: as above.
        unsafe { [_mm_set1_epi32(value); 4] }
    }

    #[inline(always)]
    unsafe fn bytes(bytes: *const u8) -> Ints {
        // SAFETY: as above.
        unsafe {
            each!(i => _mm_cvtepi8_epi32(_mm_cvtsi32_si128(bytes.add(4 * i).cast::<i32>().read_unaligned())))
        }
    }

    #[inline(always)]
    unsafe fn even(ints: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { each!(i => _mm_and_si128(ints[i], _mm_set1_epi32(!1))) }
    }

    #[inline(always)]
    unsafe fn where_odd(ints: Ints, floats: Floats) -> Floats {
        // SAFETY: as above.
        unsafe {
            // The instruction looks at the highest bit.
            each!(i => {
                let odd = _mm_castsi128_ps(_mm_slli_epi32::<31>(ints[i]));
                _mm_blendv_ps(_mm_setzero_ps(), floats[i], odd)
            })
        }
    }

    #[inline(always)]
    unsafe fn halves(halves: *const u8) -> Floats {
        // SAFETY: as above.
        unsafe {
            let mut values = [0.0; 16];
            for (i, value) in values.iter_mut().enumerate() {
                *value = f16_to_f32(halves.add(2 * i).cast::<u16>().read_unaligned());
            }
            [
                _mm_loadu_ps(values.as_ptr()),
                _mm_loadu_ps(values.as_ptr().add(4)),
                _mm_loadu_ps(values.as_ptr().add(8)),
                _mm_loadu_ps(values.as_ptr().add(12)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn floats(ints: Ints) -> Floats {
        // SAFETY: as above.
        unsafe {
            [
                _mm_cvtepi32_ps(ints[0]),
                _mm_cvtepi32_ps(ints[1]),
                _mm_cvtepi32_ps(ints[2]),
                _mm_cvtepi32_ps(ints[3]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Floats {
        // SAFETY: as above.
        unsafe { [_mm_set1_ps(value); 4] }
    }

    #[inline(always)]
    unsafe fn add(a: Floats, b: Floats) -> Floats {
        // SAFETY: as above.
        unsafe {
            [_mm_add_ps(a[0], b[0]), _mm_add_ps(a[1], b[1]), _mm_add_ps(a[2], b[2]), _mm_add_ps(a[3], b[3])]
        }
    }

    #[inline(always)]
    unsafe fn mul(a: Floats, b: Floats) -> Floats {
        // SAFETY: as above.
        unsafe {
            [_mm_mul_ps(a[0], b[0]), _mm_mul_ps(a[1], b[1]), _mm_mul_ps(a[2], b[2]), _mm_mul_ps(a[3], b[3])]
        }
    }

    #[inline(always)]
    unsafe fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
        // SAFETY: as above.
        unsafe {
            [fma(a[0], b[0], c[0]), fma(a[1], b[1], c[1]), fma(a[2], b[2], c[2]), fma(a[3], b[3], c[3])]
        }
    }

    #[inline(always)]
    unsafe fn store(floats: Floats, out: *mut f32) {
        // SAFETY: as above.
        unsafe {
            for (i, floats) in floats.into_iter().enumerate() {
                _mm_storeu_ps(out.add(4 * i), floats);
            }
        }
    }
}

/// `a * b + c` rounded once, without an instruction for it: the product is exact in f64, the sum is rounded to odd there, and
/// rounding that to f32 is as good as rounding the exact sum, because f64 has more than two bits to spare (Boldo and Melquiond,
/// "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers 57, 2008).
///
/// # Safety
/// The processor must have SSE4.1.
#[inline(always)]
unsafe fn fma(a: __m128, b: __m128, c: __m128) -> __m128 {
    // SAFETY: the caller's promise.
    unsafe {
        let low = fma_half(a, b, c);
        let high = fma_half(_mm_movehl_ps(a, a), _mm_movehl_ps(b, b), _mm_movehl_ps(c, c));
        _mm_movelh_ps(low, high)
    }
}

/// [`fma`] of the two low lanes.
///
/// # Safety
/// The processor must have SSE4.1.
#[inline(always)]
unsafe fn fma_half(a: __m128, b: __m128, c: __m128) -> __m128 {
    // SAFETY: the caller's promise.
    unsafe {
        let product = _mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b));
        let c = _mm_cvtps_pd(c);
        let sum = _mm_add_pd(product, c);
        // What rounding took from the sum, exactly (Knuth's two-sum).
        let back = _mm_sub_pd(sum, product);
        let error = _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, back)), _mm_sub_pd(c, back));
        let zero = _mm_setzero_pd();
        // Ordered comparisons: nothing is done to a sum that is no number.
        let inexact = _mm_or_pd(_mm_cmplt_pd(error, zero), _mm_cmpgt_pd(error, zero));
        let bits = _mm_castpd_si128(sum);
        let one = _mm_set1_epi64x(1);
        let even = _mm_cmpeq_epi64(_mm_and_si128(bits, one), _mm_setzero_si128());
        // An even sum goes one step towards the exact one: away from zero if both have one sign. The step is 1 or -1.
        let opposite = _mm_xor_si128(bits, _mm_castpd_si128(error));
        let opposite = _mm_shuffle_epi32::<0b11_11_01_01>(_mm_srai_epi32::<31>(opposite));
        let step = _mm_or_si128(opposite, one);
        let step = _mm_and_si128(step, _mm_and_si128(even, _mm_castpd_si128(inexact)));
        _mm_cvtpd_ps(_mm_castsi128_pd(_mm_add_epi64(bits, step)))
    }
}

/// The panel product for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); the processor must have SSSE3 and SSE4.1.
#[target_feature(enable = "ssse3,sse4.1")]
pub(super) unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe { batch::matmul::<Sse, 4, QUANT>(task, out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulated_fused_operation_rounds_once() {
        if !is_x86_feature_detected!("sse4.1") {
            return;
        }
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Exponents near one another, so that sums cancel and ties come up; few bits, so that both are frequent.
            let bits = (state >> 32) as u32;
            f32::from_bits(
                (bits & 0x8000_0000) | (120 + (bits >> 8) % 16) << 23 | (bits & 0xFF) << (bits % 16),
            )
        };
        let special =
            [0.0, -0.0, 1.0, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), f32::INFINITY, f32::NAN];
        let check = |a: f32, b: f32, c: f32| {
            let mut out = [0.0; 4];
            // SAFETY: the features have been detected.
            unsafe {
                let fused = fma(_mm_set1_ps(a), _mm_set1_ps(b), _mm_set_ps(c, 0.0, -c, c));
                _mm_storeu_ps(out.as_mut_ptr(), fused);
            }
            for (out, c) in out.into_iter().zip([c, -c, 0.0, c]) {
                let expected = a.mul_add(b, c);
                assert!(
                    out.to_bits() == expected.to_bits() || (out.is_nan() && expected.is_nan()),
                    "{a:e} * {b:e} + {c:e} = {out:e}, not {expected:e}"
                );
            }
        };
        for _ in 0..200_000 {
            check(random(), random(), random());
        }
        for a in special {
            for b in special {
                for c in special {
                    check(a, b, c);
                }
            }
        }
    }
}
