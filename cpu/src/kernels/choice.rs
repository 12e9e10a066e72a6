//! Which table an instruction set has.

#[cfg(target_arch = "aarch64")]
use super::aarch64;
use super::scalar;
use super::table::KernelTable;
#[cfg(target_feature = "simd128")]
use super::wasm32;
#[cfg(target_arch = "x86_64")]
use super::x86_64;
use crate::backend::Cpu;
use crate::isa::{Isa, Level};

impl Cpu {
    /// The kernels of its instruction set.
    pub fn kernels(&self) -> &'static KernelTable {
        KernelTable::of(self.isa())
    }
}

impl KernelTable {
    /// The table of an instruction set.
    pub fn of(isa: Isa) -> &'static KernelTable {
        match isa.level() {
            Level::Scalar => &scalar::SCALAR,
            #[cfg(target_arch = "x86_64")]
            Level::Sse => &x86_64::SSE,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => &x86_64::AVX2,
            #[cfg(target_arch = "x86_64")]
            Level::AvxVnni => &x86_64::AVX_VNNI,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if isa.has_vbmi() => &x86_64::AVX512_VBMI,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => &x86_64::AVX512,
            #[cfg(target_arch = "aarch64")]
            Level::Neon => &aarch64::NEON,
            #[cfg(target_arch = "aarch64")]
            Level::Dotprod => &aarch64::DOTPROD,
            #[cfg(target_arch = "aarch64")]
            Level::I8mm => &aarch64::I8MM,
            #[cfg(target_arch = "x86_64")]
            Level::Amx => &x86_64::AMX,
            #[cfg(target_feature = "simd128")]
            Level::Simd128 => &wasm32::SIMD128,
        }
    }
}
