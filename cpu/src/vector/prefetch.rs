//! Hints to fetch memory before it is used.

#[cfg(target_arch = "x86_64")]
use core::arch::asm;

use crate::lanes::Lanes;

/// Bytes that are fetched together.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

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

/// Has the processor fetch the cache lines that begin among the `bytes` bytes at `address`, if these are memory, into the second-level
/// cache.
///
/// Each address waits for the one before, by an addition of a register: of lines that are asked for in the same cycle, an Intel
/// Xeon with AMX gets only some (docs/measurements/cpu-kernels.md, "One line a cycle"). An addition of a constant was measured to be
/// no such wait.
#[inline(always)]
pub(crate) fn prefetch_lines(address: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let end = address.addr().wrapping_add(bytes);
        let mut line = address.addr().wrapping_add(LINE - 1) & !(LINE - 1);
        while line < end {
            // SAFETY: as above, a hint that every x86-64 processor has.
            unsafe {
                asm!(
                    "prefetcht1 [{line}]",
                    "add {line}, {step}",
                    line = inout(reg) line,
                    step = in(reg) LINE,
                    options(nomem, nostack),
                );
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
}
