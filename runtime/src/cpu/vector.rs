//! The 16 lanes as registers, for the loops that hold several accumulators: the compiler keeps vector types in registers
//! where it would spill arrays, which costs a factor of ten. The arithmetic is that of `lanes`, lane by lane.

use super::decode::f16_to_f32;
use super::isa::Isa;
#[cfg(target_arch = "x86_64")]
use super::isa::{Vectorized, run_avx2, run_avx512};
use super::lanes::{self, LANES, Lanes};
use super::math;

/// Sixteen lanes of f32.
pub trait Vector: Copy {
    /// Whether the processor holds 32 of these in registers, rather than 8.
    const MANY: bool;

    /// A truth per lane.
    type Mask: Copy;

    /// The same value in every lane.
    fn splat(value: f32) -> Self;
    /// The lanes of an array.
    fn from_lanes(lanes: &Lanes) -> Self;
    /// The values of IEEE binary16 numbers; NaNs become quiet ones.
    fn from_halves(halves: &[u16; LANES]) -> Self;
    /// `(bytes >> shift) & mask`, as whole numbers.
    fn from_codes(bytes: &[u8; LANES], shift: u32, mask: u8) -> Self;
    /// The array of the lanes.
    fn to_lanes(self) -> Lanes;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// `self / other`.
    fn div(self, other: Self) -> Self;
    /// `a * b + self`, rounded once.
    fn fma(self, a: Self, b: Self) -> Self;
    /// Where `self` is larger than `other`; false where one is NaN.
    fn larger(self, other: Self) -> Self::Mask;
    /// `yes` where `mask` is true, else `no`.
    fn choose(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// `other` where it is larger, else, also where that is NaN, `self`.
    fn or_larger(self, other: Self) -> Self;
    /// `self * 2^n`, rounded once, for a `self` from 1/2 to 2 and integers n within +-200, or NaN.
    fn times_power_of_two(self, n: Self) -> Self;
    /// [`lanes::sum`].
    fn sum(self) -> f32;

    /// [`lanes::load`].
    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        Self::from_lanes(&lanes::load(values))
    }
}

/// Work that is written once for every kind of vector. As with [`Vectorized`], everything must be `#[inline(always)]`.
pub trait VectorWork {
    /// Does the work.
    fn run<V: Vector>(self);
}

/// Runs `work` with the vectors of an instruction set, compiled for it.
pub fn run(isa: Isa, work: impl VectorWork) {
    // Not by `Isa::vectorize`, which would compile each kind of vector for every instruction set.
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx512() {
        // SAFETY: the processor has it, as has just been asked.
        return unsafe { run_avx512(OnAvx512(work)) };
    }
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx2() {
        // SAFETY: as above.
        return unsafe { run_avx2(OnAvx2(work)) };
    }
    work.run::<Lanes>();
}

/// Has the processor fetch what is at `address`, if that is memory, into the nearest cache.
#[inline(always)]
pub(super) fn prefetch(address: *const Lanes) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint: of no effect but on speed, for any address, and every x86-64 processor has it.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// [`prefetch`] into the second-level cache.
#[inline(always)]
pub(super) fn prefetch_second<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

impl Vector for Lanes {
    const MANY: bool = false;
    type Mask = [bool; LANES];

    #[inline(always)]
    fn splat(value: f32) -> Self {
        [value; LANES]
    }

    #[inline(always)]
    fn from_lanes(lanes: &Lanes) -> Self {
        *lanes
    }

    #[inline(always)]
    fn from_halves(halves: &[u16; LANES]) -> Self {
        halves.map(f16_to_f32)
    }

    #[inline(always)]
    fn from_codes(bytes: &[u8; LANES], shift: u32, mask: u8) -> Self {
        bytes.map(|byte| ((u32::from(byte) >> shift) & u32::from(mask)) as f32)
    }

    #[inline(always)]
    fn to_lanes(self) -> Lanes {
        self
    }

    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a += b;
        }
        self
    }

    #[inline(always)]
    fn sub(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a -= b;
        }
        self
    }

    #[inline(always)]
    fn mul(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a *= b;
        }
        self
    }

    #[inline(always)]
    fn div(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a /= b;
        }
        self
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self::Mask {
        let mut mask = [false; LANES];
        for i in 0..LANES {
            mask[i] = self[i] > other[i];
        }
        mask
    }

    #[inline(always)]
    fn choose(mask: Self::Mask, yes: Self, mut no: Self) -> Self {
        for i in 0..LANES {
            no[i] = if mask[i] { yes[i] } else { no[i] };
        }
        no
    }

    #[inline(always)]
    fn or_larger(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a = if b > *a { b } else { *a };
        }
        self
    }

    #[inline(always)]
    fn times_power_of_two(mut self, n: Self) -> Self {
        for (a, n) in self.iter_mut().zip(n) {
            *a = math::times_power_of_two(*a, n);
        }
        self
    }

    #[inline(always)]
    fn fma(mut self, a: Self, b: Self) -> Self {
        lanes::mul_add(&mut self, &a, &b);
        self
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        lanes::sum(self)
    }
}

#[cfg(target_arch = "x86_64")]
use {avx2::OnAvx2, avx512::OnAvx512};

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::*;

    use super::{Lanes, Vector, VectorWork, Vectorized};

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

    /// As [`math::times_power_of_two`](super::math::times_power_of_two).
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
        fn to_lanes(self) -> Lanes {
            let mut lanes = Lanes::default();
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
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use core::arch::x86_64::*;

    use super::{Lanes, Vector, VectorWork, Vectorized};

    // Private to `vector`: only `run` makes it, for an `Isa` that has AVX-512.
    pub(super) struct OnAvx512<W>(pub(super) W);

    impl<W: VectorWork> Vectorized for OnAvx512<W> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            self.0.run::<Whole>();
        }
    }

    /// All lanes. Exists only where [`OnAvx512`] runs, so that AVX-512 F and DQ, AVX2 and FMA are there.
    #[derive(Clone, Copy)]
    pub(super) struct Whole(__m512);

    impl Vector for Whole {
        const MANY: bool = true;
        type Mask = __mmask16;

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
        fn to_lanes(self) -> Lanes {
            let mut lanes = Lanes::default();
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
        fn times_power_of_two(self, n: Self) -> Self {
            // SAFETY: the type is only used where AVX-512 is.
            Whole(unsafe { _mm512_scalef_ps(self.0, n.0) })
        }

        #[inline(always)]
        fn fma(self, a: Self, b: Self) -> Self {
            // SAFETY: the type is only used where AVX-512 is.
            Whole(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
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
    }
}
