//! Hints to fetch memory before it is used.

use crate::lanes::Lanes;

/// Has the processor fetch what is at `address`, if that is memory, into the nearest cache.
#[inline(always)]
pub(crate) fn prefetch(address: *const Lanes) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint: of no effect but on speed, for any address, and every x86-64 processor has it.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Has the processor fetch what is at `address`, if that is memory, into the second-level cache.
#[inline(always)]
pub(crate) fn prefetch_second<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above, a hint that every x86-64 processor has.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
