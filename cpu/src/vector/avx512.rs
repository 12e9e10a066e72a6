//! One register of sixteen lanes.

use core::arch::x86_64::*;

use super::operations::{Quad, Vector, VectorWork};
use crate::isa::Vectorized;
use crate::lanes::{LANES, Lanes};

// Private to `vector`: only `run` makes it, for an `Isa` that has AVX-512.
pub(super) struct OnAvx512<W>(pub(super) W);

impl<W: VectorWork> Vectorized for OnAvx512<W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.0.run::<Whole>();
    }
}

/// All lanes. Exists only where [`OnAvx512`] runs, so that AVX-512 F, BW, DQ and VNNI, AVX2 and FMA are there.
#[derive(Clone, Copy)]
pub(super) struct Whole(__m512);

impl Vector for Whole {
    const MANY: bool = true;
    const QUAD_PARTS: usize = 1;
    // Products of bytes are those of bytes without sign and bytes with one.
    const QUAD_BIAS: i32 = 128;
    type Mask = __mmask16;
    type Wholes = __m512i;
    type Pairs = __m512i;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    fn from_lanes(lanes: &Lanes) -> Self {
        // SAFETY: the type is only used where AVX-512 is; the load is the array.
        Whole(unsafe { _mm512_loadu_ps(lanes.as_ptr()) })
    }

    #[inline(always)]
    fn from_halves(halves: &[u16; 16]) -> Self {
        // SAFETY: the type is only used where AVX-512 and AVX2 are; the load is the array.
        Whole(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(halves.as_ptr().cast())) })
    }

    #[inline(always)]
    fn from_codes(bytes: &[u8; 16], shift: u32, mask: u8) -> Self {
        // SAFETY: the type is only used where AVX-512 is; the load is the array.
        unsafe {
            let codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
            let codes = _mm512_srl_epi32(codes, _mm_cvtsi32_si128(shift as i32));
            let codes = _mm512_and_si512(codes, _mm512_set1_epi32(i32::from(mask)));
            Whole(_mm512_cvtepi32_ps(codes))
        }
    }

    #[inline(always)]
    fn lookup(table: &Lanes, bytes: &[u8; 16], shift: u32) -> Self {
        // SAFETY: the type is only used where AVX-512 is; both loads are arrays. Only the low 4 bits of a place count.
        unsafe {
            let places = _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
            let places = _mm512_srl_epi32(places, _mm_cvtsi32_si128(shift as i32));
            Whole(_mm512_permutexvar_ps(places, _mm512_loadu_ps(table.as_ptr())))
        }
    }

    #[inline(always)]
    fn lookup_of_four(table: &[f32; 4], bytes: &[u8; 16], shift: u32) -> Self {
        // SAFETY: the type is only used where AVX-512 is; both loads are arrays. Only the low 2 bits of a place count.
        unsafe {
            let places = _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
            let places = _mm512_srl_epi32(places, _mm_cvtsi32_si128(shift as i32));
            let table = _mm512_broadcast_f32x4(_mm_loadu_ps(table.as_ptr()));
            Whole(_mm512_permutevar_ps(table, places))
        }
    }

    #[inline(always)]
    fn pairs_from_bytes(bytes: &[u8; 64]) -> [__m512i; 2] {
        // SAFETY: the type is only used where AVX-512 BW is; the load is the array.
        unsafe {
            let bytes = _mm512_loadu_si512(bytes.as_ptr().cast());
            [_mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(bytes)), _mm512_srai_epi16::<8>(bytes)]
        }
    }

    #[inline(always)]
    fn pairs_from_codes(bytes: &[u8; 16], shift: u32, bits: u32) -> __m512i {
        // SAFETY: the type is only used where AVX-512 is; the load is the array.
        unsafe {
            let codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
            let codes = _mm512_srl_epi32(codes, _mm_cvtsi32_si128(shift as i32));
            let second = _mm512_sll_epi32(codes, _mm_cvtsi32_si128(16 - bits as i32));
            // Where the first has its bits, the second has none that count.
            let top = _mm512_set1_epi32((1 << bits) - 1);
            let pair = _mm512_set1_epi32(((1 << bits) - 1) << 16 | ((1 << bits) - 1));
            _mm512_and_si512(_mm512_or_si512(_mm512_and_si512(codes, top), second), pair)
        }
    }

    #[inline(always)]
    fn quads_from_bytes(bytes: &[u8; 64], _part: usize) -> __m512i {
        // SAFETY: the type is only used where AVX-512 is; the load is the array.
        unsafe {
            let bytes = _mm512_loadu_si512(bytes.as_ptr().cast());
            _mm512_xor_si512(bytes, _mm512_set1_epi8(i8::MIN))
        }
    }

    #[inline(always)]
    fn quads_from_nibbles(bytes: [&[u8; 16]; 2], _part: usize) -> __m512i {
        // SAFETY: the type is only used where AVX-512 is; the loads are the arrays.
        unsafe {
            let [a, b] = bytes.map(|bytes| _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast())));
            let firsts = _mm512_or_si512(a, _mm512_slli_epi32::<8>(b));
            let seconds = _mm512_slli_epi32::<12>(firsts);
            let firsts = _mm512_and_si512(firsts, _mm512_set1_epi32(0x0F0F));
            _mm512_or_si512(firsts, _mm512_and_si512(seconds, _mm512_set1_epi32(0x0F0F_0000)))
        }
    }

    #[inline(always)]
    fn quads_from_two_bits(bytes: &[u8; 16], _part: usize) -> __m512i {
        // SAFETY: the type is only used where AVX-512 is; the load is the array.
        unsafe {
            let codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
            // Code 1 comes to bit 16, then code 2 to bit 8 and code 3 to bit 24.
            let codes = _mm512_or_si512(codes, _mm512_slli_epi32::<14>(codes));
            let codes = _mm512_or_si512(codes, _mm512_slli_epi32::<4>(codes));
            _mm512_and_si512(codes, _mm512_set1_epi8(3))
        }
    }

    #[inline(always)]
    fn add_quad_products(sum: __m512i, codes: __m512i, quad: &Quad, _part: usize) -> __m512i {
        // SAFETY: the type is only used where AVX-512 VNNI is.
        unsafe { _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(quad.bytes)) }
    }

    #[inline(always)]
    fn splat_pair(pair: i32) -> __m512i {
        // SAFETY: the type is only used where AVX-512 is.
        unsafe { _mm512_set1_epi32(pair) }
    }

    #[inline(always)]
    fn splat_whole(value: i32) -> __m512i {
        // SAFETY: the type is only used where AVX-512 is.
        unsafe { _mm512_set1_epi32(value) }
    }

    #[inline(always)]
    fn add_pair_products(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the type is only used where AVX-512 VNNI is.
        unsafe { _mm512_dpwssd_epi32(sum, a, b) }
    }

    #[inline(always)]
    fn wholes(lanes: &[i32; 16]) -> __m512i {
        // SAFETY: the type is only used where AVX-512 is; the load is the array.
        unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn wholes_of_bytes(low: &[i32; 16], high: &[i32; 16]) -> __m512i {
        // SAFETY: the type is only used where AVX-512 is; both loads are arrays.
        unsafe {
            let low = _mm512_loadu_si512(low.as_ptr().cast());
            _mm512_add_epi32(low, _mm512_slli_epi32::<8>(_mm512_loadu_si512(high.as_ptr().cast())))
        }
    }

    #[inline(always)]
    fn from_wholes(wholes: __m512i) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_cvtepi32_ps(wholes) })
    }

    #[inline(always)]
    fn to_lanes(self) -> Lanes {
        let mut lanes = [0.0; LANES];
        // SAFETY: the type is only used where AVX-512 is; the store is the array.
        unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), self.0) };
        lanes
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_div_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self::Mask {
        // SAFETY: the type is only used where AVX-512 is.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, other.0) }
    }

    #[inline(always)]
    fn bits(mask: Self::Mask) -> u32 {
        u32::from(mask)
    }

    #[inline(always)]
    fn choose(mask: Self::Mask, yes: Self, no: Self) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_mask_blend_ps(mask, no.0, yes.0) })
    }

    #[inline(always)]
    fn or_larger(self, other: Self) -> Self {
        // The second where one is NaN.
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_max_ps(other.0, self.0) })
    }

    #[inline(always)]
    fn or_smaller(self, other: Self) -> Self {
        // The second where one is NaN.
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_min_ps(other.0, self.0) })
    }

    #[inline(always)]
    fn times_power_of_two(self, n: Self) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_scalef_ps(self.0, n.0) })
    }

    #[inline(always)]
    fn fraction(self) -> Self {
        // Not VREDUCEPS, which rounds what is next to 1 another way.
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_sub_ps(self.0, _mm512_roundscale_ps::<_MM_FROUND_TO_NEG_INF>(self.0)) })
    }

    #[inline(always)]
    fn times_power_below(self, n: Self) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_scalef_ps(self.0, n.0) })
    }

    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        // SAFETY: the type is only used where AVX-512 is.
        Whole(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
    }

    #[inline(always)]
    fn from_integer_bits(lanes: &Lanes) -> Self {
        // SAFETY: the type is only used where AVX-512 is; the load is the array.
        Whole(unsafe { _mm512_cvtepi32_ps(_mm512_loadu_si512(lanes.as_ptr().cast())) })
    }

    #[inline(always)]
    fn to_bytes(vectors: [Self; 4]) -> [u8; 64] {
        // Those of four lanes of each vector come together.
        const ORDER: [i32; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
        let mut bytes = [0; 64];
        // SAFETY: the type is only used where AVX-512 F and BW are; the load and the store are arrays.
        unsafe {
            let [a, b, c, d] = vectors.map(|vector| _mm512_cvttps_epi32(vector.0));
            let all = _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
            let order = _mm512_loadu_si512(ORDER.as_ptr().cast());
            _mm512_storeu_si512(bytes.as_mut_ptr().cast(), _mm512_permutexvar_epi32(order, all));
        }
        bytes
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        // Not `_mm512_reduce_add_ps`, whose order is the library's own.
        // SAFETY: the type is only used where AVX-512 F and DQ and AVX are.
        unsafe {
            let v8 = _mm256_add_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
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
/// The processor must have what [`run_avx512`](crate::isa::run_avx512) asks for.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,popcnt,bmi1,bmi2")]
unsafe fn apart(work: impl VectorWork) {
    work.run::<Whole>();
}
