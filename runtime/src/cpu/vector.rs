//! The 16 lanes as registers, for the loops that hold several accumulators: the compiler keeps vector types in registers
//! where it would spill arrays, which costs a factor of ten. The arithmetic is that of `lanes`, lane by lane.

use super::isa::{Isa, Vectorized};
use super::lanes::{self, LANES, Lanes};

/// Sixteen lanes of f32.
pub(super) trait Vector: Copy {
    fn splat(value: f32) -> Self;
    fn from_lanes(lanes: &Lanes) -> Self;
    fn to_lanes(self) -> Lanes;
    /// `a * b + self`, rounded once.
    fn fma(self, a: Self, b: Self) -> Self;
    /// [`lanes::sum`].
    fn sum(self) -> f32;

    /// [`lanes::load`].
    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        Self::from_lanes(&lanes::load(values))
    }
}

/// Work that is written once for every kind of vector. As with [`Vectorized`], everything must be `#[inline(always)]`.
pub(super) trait VectorWork {
    fn run<V: Vector>(self);
}

/// Runs `work` with the vectors of an instruction set, compiled for it.
pub(super) fn run(isa: Isa, work: impl VectorWork) {
    #[cfg(target_arch = "x86_64")]
    if isa.has_avx2() {
        return isa.vectorize(OnAvx2(work));
    }
    isa.vectorize(OnLanes(work));
}

struct OnLanes<W>(W);

impl<W: VectorWork> Vectorized for OnLanes<W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.0.run::<Lanes>();
    }
}

impl Vector for Lanes {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        [value; LANES]
    }

    #[inline(always)]
    fn from_lanes(lanes: &Lanes) -> Self {
        *lanes
    }

    #[inline(always)]
    fn to_lanes(self) -> Lanes {
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
use avx2::OnAvx2;

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

    impl Vector for Pair {
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
