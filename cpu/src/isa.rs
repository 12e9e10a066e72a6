//! Instruction sets: which this processor has, which one runs, and compiling plain Rust for it.

use std::fmt;

/// An instruction set that this processor has: a value of this type is the proof.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(Level);

/// Private to the backend: only an [`Isa`] proves that the processor has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Scalar,
    /// SSSE3 and SSE4.1.
    #[cfg(target_arch = "x86_64")]
    Sse,
    /// AVX2, FMA and F16C, with POPCNT, BMI1 and BMI2 beside them, as x86-64-v3 has them (System V ABI, AMD64, 3.1.1).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX2, FMA, F16C and AVX-VNNI.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// The features of AVX2 and AVX-512 F, BW, DQ, VL and VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// The features of AVX-512, VBMI and VBMI2, which every processor with AMX has, and AMX with bytes and bfloat16, permitted by the
    /// system.
    #[cfg(target_arch = "x86_64")]
    Amx,
    /// What every aarch64 processor has.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// NEON with dot products of bytes.
    #[cfg(target_arch = "aarch64")]
    Dotprod,
    /// NEON with dot products and matrix products of bytes.
    #[cfg(target_arch = "aarch64")]
    I8mm,
    /// Vectors of WebAssembly. A module that has their instructions runs nowhere else.
    #[cfg(target_feature = "simd128")]
    Simd128,
}

/// The name of every set on every processor.
const NAMES: [&str; 10] =
    ["scalar", "sse", "avx2", "avxvnni", "avx512", "amx", "neon", "dotprod", "i8mm", "simd128"];

/// A value of `QSF_CPU` that cannot be honoured.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("QSF_CPU={value}: {why}; this processor can run: {available}")]
pub struct CpuError {
    value: String,
    why: &'static str,
    available: String,
}

/// Work in plain Rust that is compiled once for every instruction set. `run` and everything it calls must be
/// `#[inline(always)]`, or it stays compiled for the baseline.
pub trait Vectorized {
    /// What the work returns.
    type Output;

    /// Does the work.
    fn run(self) -> Self::Output;
}

impl Isa {
    /// No vector instructions beyond the target's baseline: the oracle, on every processor.
    pub const SCALAR: Isa = Isa(Level::Scalar);

    /// Every set that this processor has, slowest first.
    pub fn available() -> Vec<Isa> {
        #[cfg_attr(
            not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128")),
            expect(unused_mut, reason = "no other set here")
        )]
        let mut all = vec![Isa::SCALAR];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            for (level, present) in [
                (Level::Sse, is_x86_feature_detected!("ssse3") && is_x86_feature_detected!("sse4.1")),
                (Level::Avx2, avx2),
                (Level::AvxVnni, avx2 && is_x86_feature_detected!("avxvnni")),
                (Level::Avx512, avx2 && avx512),
                (Level::Amx, avx2 && avx512 && detected_vbmi() && super::tile_permission::tiles_allowed()),
            ] {
                if present {
                    all.push(Isa(level));
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            use std::arch::is_aarch64_feature_detected as detected;
            all.push(Isa(Level::Neon));
            if detected!("dotprod") {
                all.push(Isa(Level::Dotprod));
                if detected!("i8mm") {
                    all.push(Isa(Level::I8mm));
                }
            }
        }
        #[cfg(target_feature = "simd128")]
        all.push(Isa(Level::Simd128));
        all
    }

    /// The fastest set of this processor.
    pub fn best() -> Isa {
        Self::available().last().copied().unwrap_or(Self::SCALAR)
    }

    /// The set that the environment variable `QSF_CPU` names, else the fastest.
    ///
    /// # Errors
    /// When the variable names something unknown or something that this processor lacks.
    pub fn from_env() -> Result<Isa, CpuError> {
        match std::env::var_os("QSF_CPU") {
            None => Ok(Self::best()),
            Some(value) => Self::by_name(&value.to_string_lossy()),
        }
    }

    /// The set of this name.
    ///
    /// # Errors
    /// When the name is unknown or this processor lacks the set.
    pub fn by_name(name: &str) -> Result<Isa, CpuError> {
        let available = Self::available();
        if let Some(isa) = available.iter().find(|isa| isa.name() == name) {
            return Ok(*isa);
        }
        let why = if NAMES.contains(&name) { "this processor lacks it" } else { "no such instruction set" };
        let available = available.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
        Err(CpuError { value: name.to_owned(), why, available })
    }

    /// The name that `QSF_CPU` takes.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Level::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Level::Sse => "sse",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::AvxVnni => "avxvnni",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Level::Neon => "neon",
            #[cfg(target_arch = "aarch64")]
            Level::Dotprod => "dotprod",
            #[cfg(target_arch = "aarch64")]
            Level::I8mm => "i8mm",
            #[cfg(target_arch = "x86_64")]
            Level::Amx => "amx",
            #[cfg(target_feature = "simd128")]
            Level::Simd128 => "simd128",
        }
    }

    pub(super) const fn level(self) -> Level {
        self.0
    }

    /// Whether AVX2, FMA and F16C may be used.
    #[cfg(target_arch = "x86_64")]
    pub const fn has_avx2(self) -> bool {
        matches!(self.0, Level::Avx2 | Level::AvxVnni | Level::Avx512 | Level::Amx)
    }

    /// Whether AVX-512 F, BW, DQ, VL and VNNI may be used, beside what [`Isa::has_avx2`] says.
    #[cfg(target_arch = "x86_64")]
    pub const fn has_avx512(self) -> bool {
        matches!(self.0, Level::Avx512 | Level::Amx)
    }

    /// Whether VBMI and VBMI2 of AVX-512 may be used, beside what [`Isa::has_avx512`] says.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn has_vbmi(self) -> bool {
        self.has_avx512() && detected_vbmi()
    }

    /// Whether the processor has tiles of bytes.
    #[cfg(target_arch = "x86_64")]
    pub(super) const fn has_byte_tiles(self) -> bool {
        matches!(self.0, Level::Amx)
    }

    /// What attention over many tokens is computed by, where there is something besides vectors of floats.
    #[cfg(target_arch = "x86_64")]
    pub(super) const fn attention_unit(self) -> Option<AttentionUnit> {
        match self.0 {
            Level::Amx => Some(AttentionUnit::Bf16Tiles),
            Level::Avx512 => Some(AttentionUnit::ByteVectors),
            _ => None,
        }
    }

    /// Runs `work` compiled for this instruction set. Results are the same bits on every set: Rust fuses no
    /// multiplication and addition unless `mul_add` asks for it, and then on every set.
    #[inline]
    pub fn vectorize<W: Vectorized>(self, work: W) -> W::Output {
        match self.0 {
            Level::Scalar => work.run(),
            // Without a fused multiply-add of its own nothing is gained over the baseline.
            #[cfg(target_arch = "x86_64")]
            Level::Sse => work.run(),
            // NEON is part of the baseline.
            #[cfg(target_arch = "aarch64")]
            Level::Neon | Level::Dotprod | Level::I8mm => work.run(),
            // All of the module has the instructions.
            #[cfg(target_feature = "simd128")]
            Level::Simd128 => work.run(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value with one of these levels is only made after detection of the features.
            Level::Avx2 | Level::AvxVnni => unsafe { run_avx2(work) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 | Level::Amx => unsafe { run_avx512(work) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn detected_vbmi() -> bool {
    is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512vbmi2")
}

/// What multiplies many rows at once.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttentionUnit {
    /// The tile unit of AMX, in bfloat16: faster than in bytes, for few instructions make scores weights.
    Bf16Tiles,
    /// The vector instructions of AVX-512 VNNI, in bytes.
    ByteVectors,
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// # Safety
/// The processor must have AVX2, FMA, F16C, POPCNT, BMI1 and BMI2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,popcnt,bmi1,bmi2")]
pub(super) unsafe fn run_avx2<W: Vectorized>(work: W) -> W::Output {
    work.run()
}

/// # Safety
/// The processor must have AVX-512 F, BW, DQ, VL and VNNI, AVX2, FMA, F16C, POPCNT, BMI1 and BMI2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,popcnt,bmi1,bmi2")]
pub(super) unsafe fn run_avx512<W: Vectorized>(work: W) -> W::Output {
    work.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_set_is_an_error_that_lists_the_known() {
        let error = Isa::by_name("mmx").unwrap_err().to_string();
        assert!(error.contains("mmx") && error.contains("scalar"), "{error}");
        assert_eq!(Isa::by_name("scalar"), Ok(Isa::SCALAR));
    }

    #[test]
    fn the_sets_of_an_emulated_processor_are_found() {
        let Ok(expected) = std::env::var("QSF_TEST_CPU") else {
            eprintln!(
                "skipped: QSF_TEST_CPU does not say which sets this processor has; scripts/test_aarch64 does"
            );
            return;
        };
        let found: Vec<_> = Isa::available().into_iter().map(Isa::name).collect();
        assert_eq!(found.join(","), expected, "tests of a set that is not found would test nothing");
    }
}
