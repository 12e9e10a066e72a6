//! Fetching weights from memory ahead of the arithmetic, into the second-level cache.
//!
//! How far ahead is best depends on the maker (docs/performance.md, "What bounds it"): AMD's own prefetching is good, and what is asked
//! for further ahead takes its place; Intel's stops at the end of each page. Results do not depend on it.

use core::arch::x86_64::{__cpuid, _MM_HINT_T1, _mm_prefetch};
use std::sync::OnceLock;

/// The name in leaf 0 of CPUID, in the order of EBX, EDX, ECX (AMD64 Architecture Programmer's Manual, volume 3, appendix E).
const AMD: [u32; 3] =
    [u32::from_le_bytes(*b"Auth"), u32::from_le_bytes(*b"enti"), u32::from_le_bytes(*b"cAMD")];
const AHEAD_ON_AMD: usize = 1024;
const AHEAD_ELSEWHERE: usize = 4096;

/// Bytes from what is worked on to what is fetched.
pub(super) fn ahead() -> usize {
    static AHEAD: OnceLock<usize> = OnceLock::new();
    *AHEAD.get_or_init(|| {
        let maker = __cpuid(0);
        if [maker.ebx, maker.edx, maker.ecx] == AMD { AHEAD_ON_AMD } else { AHEAD_ELSEWHERE }
    })
}

/// Asks for the cache line at `address`, which may be any.
#[inline(always)]
pub(super) fn fetch(address: *const u8) {
    // SAFETY: a hint: of no effect but on speed, for any address, and every x86-64 processor has it.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
}
