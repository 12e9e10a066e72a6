//! Whether the tile unit of Intel AMX may be used: the processor must have it, and the system must have permitted it.
//! From the manual: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1 chapter 18.

/// Whether processor and system let this process use tiles of bytes and of bfloat16. Asks the system for the permission.
#[cfg(target_os = "linux")]
pub(super) fn tiles_allowed() -> bool {
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    const OSXSAVE: u32 = 1 << 27;
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    const AMX_INT8: u32 = 1 << 25;
    const TILE_STATE: u64 = 1 << 17 | 1 << 18;

    #[target_feature(enable = "xsave")]
    fn enabled_state() -> u64 {
        // SAFETY: register 0 always exists.
        unsafe { _xgetbv(0) }
    }

    const FEATURES: u32 = AMX_BF16 | AMX_TILE | AMX_INT8;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 || __cpuid_count(7, 0).edx & FEATURES != FEATURES {
        return false;
    }
    // SAFETY: OSXSAVE says that the instruction may be used.
    unsafe { enabled_state() & TILE_STATE == TILE_STATE && permitted() }
}

/// Whether processor and system let this process use tiles: only Linux gives the permission in a way that is known here.
#[cfg(not(target_os = "linux"))]
pub(super) fn tiles_allowed() -> bool {
    false
}

/// Asks for the permission to use tiles, for all threads of the process: "Using XSTATE features in user space applications"
/// of the Linux kernel's documentation.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const SYS_ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: the call reads and writes no memory of ours; an older kernel returns an error.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") SYS_ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result == 0
}
