//! Runs work with the vectors that a processor has.

use super::operations::VectorWork;
#[cfg(target_feature = "simd128")]
use super::simd128::Four;
#[cfg(target_arch = "x86_64")]
use super::{avx2::OnAvx2, avx512::OnAvx512};
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::{run_avx2, run_avx512};
use crate::lanes::Lanes;

/// Runs `work` with the vectors of an instruction set, compiled for it.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_feature = "simd128")),
    allow(unused_variables, reason = "one kind of vector serves all of its sets")
)]
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
    #[cfg(target_feature = "simd128")]
    if isa != Isa::SCALAR {
        return work.run::<Four>();
    }
    work.run::<Lanes>();
}
