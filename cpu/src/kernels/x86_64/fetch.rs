//! How far ahead of the arithmetic weights are fetched from memory, into the second-level cache.
//!
//! What is best depends on the maker (docs/measurements/cpu-kernels.md, "Fetching ahead"): AMD's own prefetching is good,
//! and what is asked for further ahead takes its place; Intel's stops at the end of each page. Results do not depend on it.

use core::arch::x86_64::__cpuid;
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
