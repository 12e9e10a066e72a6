//! How far ahead of the arithmetic weights are fetched from memory, and into which cache.
//!
//! What is best depends on the maker (docs/measurements/cpu-kernels.md, "Fetching ahead"): AMD's own prefetching is good,
//! and what is asked for further ahead takes its place, on a Zen 4 from 1024 bytes on where a group of columns has few bytes.
//! A Zen 5 reads fastest what is on its way to the first-level cache early. Intel's prefetching stops at the end of each page.
//! Results do not depend on it.

use core::arch::x86_64::__cpuid;
use std::sync::OnceLock;

use crate::kernels::unpack::Ahead;
use crate::vector::CacheLevel;

/// The name in leaf 0 of CPUID, in the order of EBX, EDX, ECX (AMD64 Architecture Programmer's Manual, volume 3, appendix E).
const AMD: [u32; 3] =
    [u32::from_le_bytes(*b"Auth"), u32::from_le_bytes(*b"enti"), u32::from_le_bytes(*b"cAMD")];
/// The family of Zen 5.
const ZEN5: u32 = 0x1A;

const ON_AMD: Ahead = Ahead { bytes: 512, level: CacheLevel::Second };
const ON_ZEN5: Ahead = Ahead { bytes: 6144, level: CacheLevel::First };
const ELSEWHERE: Ahead = Ahead { bytes: 4096, level: CacheLevel::Second };

/// What is best for this processor.
pub(super) fn ahead() -> Ahead {
    static AHEAD: OnceLock<Ahead> = OnceLock::new();
    *AHEAD.get_or_init(|| {
        let maker = __cpuid(0);
        match [maker.ebx, maker.edx, maker.ecx] == AMD {
            true if family() >= ZEN5 => ON_ZEN5,
            true => ON_AMD,
            false => ELSEWHERE,
        }
    })
}

/// The family in leaf 1 of CPUID: the extended one is added to a base of 15.
fn family() -> u32 {
    let eax = __cpuid(1).eax;
    let base = eax >> 8 & 0xF;
    if base == 0xF { base + (eax >> 20 & 0xFF) } else { base }
}
