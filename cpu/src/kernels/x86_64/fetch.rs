//! How far ahead of the arithmetic weights are fetched from memory, into the second-level cache.
//!
//! What is best depends on the maker (docs/measurements/cpu-kernels.md, "Fetching ahead"): AMD's own prefetching is good,
//! and what is asked for further ahead takes its place, on a Zen 4 from 1024 bytes on where a group of columns has few bytes.
//! Not so on a Zen 5, least where one thread has the memory for itself. Intel's stops at the end of each page. Results do not
//! depend on it.

use core::arch::x86_64::__cpuid;
use std::sync::OnceLock;

/// The name in leaf 0 of CPUID, in the order of EBX, EDX, ECX (AMD64 Architecture Programmer's Manual, volume 3, appendix E).
const AMD: [u32; 3] =
    [u32::from_le_bytes(*b"Auth"), u32::from_le_bytes(*b"enti"), u32::from_le_bytes(*b"cAMD")];
/// The family of Zen 5.
const ZEN5: u32 = 0x1A;

/// Bytes from what is worked on to what is fetched.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    /// Where no other thread reads.
    alone: usize,
    shared: usize,
}

const ON_AMD: Ahead = Ahead { alone: 512, shared: 512 };
const ON_ZEN5: Ahead = Ahead { alone: 8192, shared: 4096 };
const ELSEWHERE: Ahead = Ahead { alone: 4096, shared: 4096 };

/// Bytes from what is worked on to what is fetched, for a thread that reads weights alone, or not.
pub(super) fn ahead(alone: bool) -> usize {
    static AHEAD: OnceLock<Ahead> = OnceLock::new();
    let ahead = AHEAD.get_or_init(|| {
        let maker = __cpuid(0);
        match [maker.ebx, maker.edx, maker.ecx] == AMD {
            true if family() >= ZEN5 => ON_ZEN5,
            true => ON_AMD,
            false => ELSEWHERE,
        }
    });
    if alone { ahead.alone } else { ahead.shared }
}

/// The family in leaf 1 of CPUID: the extended one is added to a base of 15.
fn family() -> u32 {
    let eax = __cpuid(1).eax;
    let base = eax >> 8 & 0xF;
    if base == 0xF { base + (eax >> 20 & 0xFF) } else { base }
}
