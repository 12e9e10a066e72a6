//! Hints to fetch memory before it is used.

#[cfg(target_arch = "x86_64")]
use core::arch::asm;

use crate::lanes::Lanes;

/// Bytes that are fetched together.
pub(crate) const LINE: usize = 64;

/// Runs an instruction that fetches the line at an address, and gives the address of the next.
#[cfg(target_arch = "x86_64")]
macro_rules! prefetch_line {
    ($instruction:literal, $line:ident) => {{
        let mut line: usize = $line;
        // SAFETY: a hint: of no effect but on speed, for any address, and every x86-64 processor has it.
        unsafe {
            asm!(
                concat!($instruction, " [{line}]"),
                "add {line}, {step}",
                line = inout(reg) line,
                step = in(reg) LINE,
                options(nomem, nostack),
            );
        }
        line
    }};
}

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

/// A cache that memory is fetched into ahead of its use.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there is no such instruction"))]
pub(crate) enum CacheLevel {
    First,
    Second,
}

/// Has the processor fetch the cache lines that begin among the `bytes` bytes at `address`, if these are memory.
///
/// Each address waits for the one before, by an addition of a register: of lines that are asked for in the same cycle, an Intel
/// Xeon with AMX gets only some (docs/measurements/cpu-kernels.md, "One line a cycle"). An addition of a constant was measured to be
/// no such wait.
#[inline(always)]
pub(crate) fn prefetch_lines(address: *const u8, bytes: usize, level: CacheLevel) {
    #[cfg(target_arch = "x86_64")]
    {
        let end = address.addr().wrapping_add(bytes);
        let mut line = address.addr().wrapping_add(LINE - 1) & !(LINE - 1);
        match level {
            CacheLevel::First => {
                while line < end {
                    line = prefetch_line!("prefetcht0", line);
                }
            }
            CacheLevel::Second => {
                while line < end {
                    line = prefetch_line!("prefetcht1", line);
                }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes, level);
}
