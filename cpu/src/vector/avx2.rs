//! Two registers of eight lanes.

use core::arch::x86_64::*;

use super::operations::{Vector, VectorWork};
use crate::isa::Vectorized;
use crate::lanes::{LANES, Lanes};

// Private to `vector`: only `run` makes it, for an `Isa` that has AVX2.
pub(super) struct OnAvx2<W>(pub(super) W);

impl<W: VectorWork> Vectorized for OnAvx2<W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.0.run::<Pair>();
    }
}

/// Lanes 0 to 7 and 8 to 15. Exists only where [`OnAvx2`] runs, so that AVX2 and FMA are there.
#[derive(Clone, Copy)]
pub(super) struct Pair(__m256, __m256);

/// `x * 2^n`, rounded once, as [`power_of_two`](crate::power_of_two) says.
///
/// # Safety
/// The processor must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn times_power_of_two(x: __m256, n: __m256) -> __m256 {
    let (n, bias) = (_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    let half = _mm256_srai_epi32::<1>(n);
    let rest = _mm256_sub_epi32(n, half);
    let first = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
    let second = _mm256_slli_epi32::<23>(_mm256_add_epi32(rest, bias));
    _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second))
}

impl Vector for Pair {
    const MANY: bool = false;
    /// All bits of a lane, or none.
    type Mask = (__m256, __m256);
    type Wholes = (__m256i, __m256i);
    type Pairs = (__m256i, __m256i);

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: the type is only used where AVX2 is.
        let v = unsafe { _mm256_set1_ps(value) };
        Pair(v, v)
    }

    #[inline(always)]
    fn from_lanes(lanes: &Lanes) -> Self {
        // SAFETY: the type is only used where AVX2 is; both loads are inside the array.
        unsafe { Pair(_mm256_loadu_ps(lanes.as_ptr()), _mm256_loadu_ps(lanes.as_ptr().add(8))) }
    }

    #[inline(always)]
    fn from_halves(halves: &[u16; 16]) -> Self {
        let halves = halves.as_ptr().cast::<__m128i>();
        // SAFETY: the type is only used where AVX2 and F16C are; both loads are inside the array.
        unsafe {
            let (low, high) = (_mm_loadu_si128(halves), _mm_loadu_si128(halves.add(1)));
            Pair(_mm256_cvtph_ps(low), _mm256_cvtph_ps(high))
        }
    }

    #[inline(always)]
    fn from_codes(bytes: &[u8; 16], shift: u32, mask: u8) -> Self {
        // SAFETY: the type is only used where AVX2 is; the load is the array.
        unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
            let shift = _mm_cvtsi32_si128(shift as i32);
            let mask = _mm256_set1_epi32(i32::from(mask));
            let low = _mm256_cvtepu8_epi32(bytes);
            let high = _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes));
            let low = _mm256_and_si256(_mm256_srl_epi32(low, shift), mask);
            let high = _mm256_and_si256(_mm256_srl_epi32(high, shift), mask);
            Pair(_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high))
        }
    }

    #[inline(always)]
    fn lookup(table: &Lanes, bytes: &[u8; 16], shift: u32) -> Self {
        // SAFETY: the type is only used where AVX2 is; all loads are inside the arrays.
        unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
            let shift = _mm_cvtsi32_si128(shift as i32);
            let low = _mm256_loadu_ps(table.as_ptr());
            let high = _mm256_loadu_ps(table.as_ptr().add(8));
            let values = |bytes: __m128i| {
                // Only the low 3 bits count in a permutation; the fourth, moved to the sign, chooses the half.
                let places = _mm256_srl_epi32(_mm256_cvtepu8_epi32(bytes), shift);
                let half = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(places));
                let (low, high) =
                    (_mm256_permutevar8x32_ps(low, places), _mm256_permutevar8x32_ps(high, places));
                _mm256_blendv_ps(low, high, half)
            };
            Pair(values(bytes), values(_mm_unpackhi_epi64(bytes, bytes)))
        }
    }

    #[inline(always)]
    fn lookup_of_four(table: &[f32; 4], bytes: &[u8; 16], shift: u32) -> Self {
        // SAFETY: the type is only used where AVX2 is; both loads are arrays. Only the low 2 bits of a place count.
        unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
            let shift = _mm_cvtsi32_si128(shift as i32);
            let table = _mm256_broadcast_ps(&_mm_loadu_ps(table.as_ptr()));
            let values = |bytes: __m128i| {
                _mm256_permutevar_ps(table, _mm256_srl_epi32(_mm256_cvtepu8_epi32(bytes), shift))
            };
            Pair(values(bytes), values(_mm_unpackhi_epi64(bytes, bytes)))
        }
    }

    #[inline(always)]
    fn pairs_from_bytes(bytes: &[u8; 64]) -> [Self::Pairs; 2] {
        let bytes = bytes.as_ptr().cast::<__m256i>();
        // SAFETY: the type is only used where AVX2 is; both loads are inside the array.
        unsafe {
            let (low, high) = (_mm256_loadu_si256(bytes), _mm256_loadu_si256(bytes.add(1)));
            let first = |bytes: __m256i| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes));
            [(first(low), first(high)), (_mm256_srai_epi16::<8>(low), _mm256_srai_epi16::<8>(high))]
        }
    }

    #[inline(always)]
    fn pairs_from_codes(bytes: &[u8; 16], shift: u32, bits: u32) -> Self::Pairs {
        // SAFETY: the type is only used where AVX2 is; the load is the array.
        unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
            let (shift, up) = (_mm_cvtsi32_si128(shift as i32), _mm_cvtsi32_si128(16 - bits as i32));
            let top = _mm256_set1_epi32((1 << bits) - 1);
            let pair = _mm256_set1_epi32(((1 << bits) - 1) << 16 | ((1 << bits) - 1));
            let pairs = |bytes: __m128i| {
                let codes = _mm256_srl_epi32(_mm256_cvtepu8_epi32(bytes), shift);
                let second = _mm256_sll_epi32(codes, up);
                // Where the first has its bits, the second has none that count.
                _mm256_and_si256(_mm256_or_si256(_mm256_and_si256(codes, top), second), pair)
            };
            (pairs(bytes), pairs(_mm_unpackhi_epi64(bytes, bytes)))
        }
    }

    #[inline(always)]
    fn splat_pair(pair: i32) -> Self::Pairs {
        Self::splat_whole(pair)
    }

    #[inline(always)]
    fn splat_whole(value: i32) -> Self::Wholes {
        // SAFETY: the type is only used where AVX2 is.
        let v = unsafe { _mm256_set1_epi32(value) };
        (v, v)
    }

    #[inline(always)]
    fn add_pair_products(sum: Self::Wholes, a: Self::Pairs, b: Self::Pairs) -> Self::Wholes {
        // SAFETY: the type is only used where AVX2 is.
        unsafe {
            let (low, high) = (_mm256_madd_epi16(a.0, b.0), _mm256_madd_epi16(a.1, b.1));
            (_mm256_add_epi32(sum.0, low), _mm256_add_epi32(sum.1, high))
        }
    }

    #[inline(always)]
    fn wholes(lanes: &[i32; 16]) -> Self::Wholes {
        // SAFETY: the type is only used where AVX2 is; both loads are inside the array.
        unsafe {
            let half = |at: usize| _mm256_loadu_si256(lanes.as_ptr().add(at).cast());
            (half(0), half(8))
        }
    }

    #[inline(always)]
    fn wholes_of_bytes(low: &[i32; 16], high: &[i32; 16]) -> Self::Wholes {
        // SAFETY: the type is only used where AVX2 is; all loads are inside the arrays.
        unsafe {
            let half = |at: usize| {
                let (low, high) = (low.as_ptr().add(at).cast(), high.as_ptr().add(at).cast());
                let high = _mm256_slli_epi32::<8>(_mm256_loadu_si256(high));
                _mm256_add_epi32(_mm256_loadu_si256(low), high)
            };
            (half(0), half(8))
        }
    }

    #[inline(always)]
    fn from_wholes(wholes: Self::Wholes) -> Self {
        // SAFETY: the type is only used where AVX2 is.
        unsafe { Pair(_mm256_cvtepi32_ps(wholes.0), _mm256_cvtepi32_ps(wholes.1)) }
    }

    #[inline(always)]
    fn to_lanes(self) -> Lanes {
        let mut lanes = [0.0; LANES];
        // SAFETY: the type is only used where AVX2 is; both stores are inside the array.
        unsafe {
            _mm256_storeu_ps(lanes.as_mut_ptr(), self.0);
            _mm256_storeu_ps(lanes.as_mut_ptr().add(8), self.1);
        }
        lanes
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the type is only used where AVX2 is.
        unsafe { Pair(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the type is only used where AVX2 is.
        unsafe { Pair(_mm256_sub_ps(self.0, other.0), _mm256_sub_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: the type is only used where AVX2 is.
        unsafe { Pair(_mm256_mul_ps(self.0, other.0), _mm256_mul_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: the type is only used where AVX2 is.
        unsafe { Pair(_mm256_div_ps(self.0, other.0), _mm256_div_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self::Mask {
        // SAFETY: the type is only used where AVX2 is.
        unsafe {
            (_mm256_cmp_ps::<_CMP_GT_OQ>(self.0, other.0), _mm256_cmp_ps::<_CMP_GT_OQ>(self.1, other.1))
        }
    }

    #[inline(always)]
    fn bits(mask: Self::Mask) -> u32 {
        // SAFETY: the type is only used where AVX2 is.
        let [low, high] = unsafe { [_mm256_movemask_ps(mask.0), _mm256_movemask_ps(mask.1)] };
        (low | high << 8).cast_unsigned()
    }

    #[inline(always)]
    fn choose(mask: Self::Mask, yes: Self, no: Self) -> Self {
        // SAFETY: the type is only used where AVX2 is.
        unsafe { Pair(_mm256_blendv_ps(no.0, yes.0, mask.0), _mm256_blendv_ps(no.1, yes.1, mask.1)) }
    }

    #[inline(always)]
    fn or_larger(self, other: Self) -> Self {
        // The second where one is NaN.
        // SAFETY: the type is only used where AVX2 is.
        unsafe { Pair(_mm256_max_ps(other.0, self.0), _mm256_max_ps(other.1, self.1)) }
    }

    #[inline(always)]
    fn or_smaller(self, other: Self) -> Self {
        // The second where one is NaN.
        // SAFETY: the type is only used where AVX2 is.
        unsafe { Pair(_mm256_min_ps(other.0, self.0), _mm256_min_ps(other.1, self.1)) }
    }

    #[inline(always)]
    fn times_power_of_two(self, n: Self) -> Self {
        // SAFETY: the type is only used where AVX2 is.
        unsafe { Pair(times_power_of_two(self.0, n.0), times_power_of_two(self.1, n.1)) }
    }

    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        // SAFETY: the type is only used where AVX2 and FMA are.
        unsafe { Pair(_mm256_fmadd_ps(a.0, b.0, self.0), _mm256_fmadd_ps(a.1, b.1, self.1)) }
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: the type is only used where AVX2 is.
        unsafe {
            let v8 = _mm256_add_ps(self.0, self.1);
            let v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps::<1>(v8));
            let v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
            _mm_cvtss_f32(_mm_add_ss(v2, _mm_movehdup_ps(v2)))
        }
    }

    #[inline(always)]
    fn apart(work: impl VectorWork) {
        // SAFETY: the type is only used where these are.
        unsafe { apart(work) }
    }
}

/// # Safety
/// The processor must have AVX2, FMA, F16C, POPCNT, BMI1 and BMI2.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,popcnt,bmi1,bmi2")]
unsafe fn apart(work: impl VectorWork) {
    work.run::<Pair>();
}
