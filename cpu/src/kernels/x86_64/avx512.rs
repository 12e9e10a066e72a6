//! Panels with AVX-512 and its VNNI instructions: one register for each value of [`PanelIsa`]. With VBMI and VBMI2 learned types need
//! fewer instructions.

use core::arch::x86_64::*;

use super::{batch, fetch};
use crate::kernels::form::Form;
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::product;
use crate::kernels::unpack::{Ahead, PanelIsa};
use crate::vector::{CacheLevel, prefetch_lines};

/// AVX-512, `VBMI` and VBMI2 with it or not.
pub(super) struct Registers<const VBMI: bool>;
pub(super) type Avx512 = Registers<false>;
pub(super) type Avx512Vbmi = Registers<true>;

// SAFETY of all blocks: the trait's promises, which each function passes on.
impl<const VBMI: bool> PanelIsa for Registers<VBMI> {
    type Codes = __m512i;
    type Dots = __m512i;
    type Ints = __m512i;
    type Floats = __m512;

    const OFFSET: u8 = 128;
    const SKIPS_BITS: bool = VBMI;

    fn ahead() -> Ahead {
        fetch::ahead()
    }

    #[inline(always)]
    unsafe fn fetch(address: *const u8, bytes: usize, level: CacheLevel) {
        prefetch_lines(address, bytes, level);
    }

    #[inline(always)]
    unsafe fn load(codes: *const u8) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_loadu_si512(codes.cast()) }
    }

    #[inline(always)]
    unsafe fn shift_right(codes: __m512i, bits: usize) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_srl_epi16(codes, _mm_cvtsi32_si128(bits as i32)) }
    }

    #[inline(always)]
    unsafe fn shift_left(codes: __m512i, bits: usize) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_sll_epi16(codes, _mm_cvtsi32_si128(bits as i32)) }
    }

    #[inline(always)]
    unsafe fn and(codes: __m512i, mask: u8) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_and_si512(codes, _mm512_set1_epi8(mask as i8)) }
    }

    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn add_codes(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_add_epi8(a, b) }
    }

    #[inline(always)]
    unsafe fn splat_codes(code: u8) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_set1_epi8(code as i8) }
    }

    #[inline(always)]
    unsafe fn merge(mask: u8, set: __m512i, clear: __m512i) -> __m512i {
        // SAFETY: as above. Where the mask is set the first, else the second.
        unsafe { _mm512_ternarylogic_epi32::<0xCA>(_mm512_set1_epi8(mask as i8), set, clear) }
    }

    #[inline(always)]
    unsafe fn carry(codes: __m512i, before: __m512i) -> __m512i {
        if VBMI {
            // SAFETY: as above.
            return unsafe { _mm512_shldi_epi32::<8>(codes, before) };
        }
        // SAFETY: as above.
        unsafe { _mm512_or_si512(_mm512_slli_epi32::<8>(codes), _mm512_srli_epi32::<24>(before)) }
    }

    #[inline(always)]
    unsafe fn table(entries: &[u8; 16]) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(entries.as_ptr().cast())) }
    }

    #[inline(always)]
    unsafe fn long_table(entries: &[[u8; 16]; 2]) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_broadcast_i64x4(_mm256_loadu_si256(entries.as_ptr().cast())) }
    }

    #[inline(always)]
    unsafe fn lookup(table: __m512i, codes: __m512i) -> __m512i {
        if VBMI {
            // A table of 64 entries: bits 6 and 7 are not looked at.
            // SAFETY: as above.
            return unsafe { _mm512_permutexvar_epi8(codes, table) };
        }
        // SAFETY: as above.
        unsafe { _mm512_shuffle_epi8(table, codes) }
    }

    #[inline(always)]
    unsafe fn choose(plane: __m512i, bit: usize, clear: __m512i, set: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let mask = _mm512_test_epi8_mask(plane, _mm512_set1_epi8((1u8 << bit) as i8));
            _mm512_mask_mov_epi8(clear, mask, set)
        }
    }

    #[inline(always)]
    unsafe fn no_dots() -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn dot(dots: __m512i, codes: __m512i, x: *const i8) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_dpbusd_epi32(dots, codes, _mm512_set1_epi32(x.cast::<i32>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn ints(dots: __m512i) -> __m512i {
        dots
    }

    #[inline(always)]
    unsafe fn no_ints() -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn dot_signed(ints: __m512i, codes: __m512i, x: *const i8) -> __m512i {
        // The instruction wants unsigned codes, whence the offset.
        // SAFETY: as above.
        unsafe { Self::dot(ints, codes, x) }
    }

    #[inline(always)]
    unsafe fn add_ints(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn splat_ints(value: i32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_set1_epi32(value) }
    }

    #[inline(always)]
    unsafe fn bytes(bytes: *const u8) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(bytes.cast())) }
    }

    #[inline(always)]
    unsafe fn even(ints: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_and_si512(ints, _mm512_set1_epi32(!1)) }
    }

    #[inline(always)]
    unsafe fn where_odd(ints: __m512i, floats: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_maskz_mov_ps(_mm512_test_epi32_mask(ints, _mm512_set1_epi32(1)), floats) }
    }

    #[inline(always)]
    unsafe fn halves(halves: *const u8) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(halves.cast())) }
    }

    #[inline(always)]
    unsafe fn floats(ints: __m512i) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_cvtepi32_ps(ints) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn store(floats: __m512, out: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(out, floats) }
    }
}

/// The panel product for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); the processor must have AVX2, FMA, F16C and AVX-512 F, BW, DQ, VL
/// and VNNI.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe { batch::matmul::<Avx512, 8, QUANT>(task, out) }
}

/// [`matmul`] for processors with VBMI and VBMI2, of which a learned type makes use with one token: where codes are unpacked once for
/// several, eight tokens took 4 % longer.
///
/// # Safety
/// As for [`matmul`]; the processor must have VBMI and VBMI2 as well.
#[target_feature(
    enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2"
)]
pub(super) unsafe fn matmul_vbmi<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe {
        if Form::<QUANT>::IS_LEARNED && task.tokens.len() == 1 {
            product::matmul::<Avx512Vbmi, QUANT>(task, out);
        } else {
            matmul::<QUANT>(task, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::BlockSize;

    use super::super::{AVX512, AVX512_VBMI, amx};
    use crate::isa::Isa;

    #[test]
    fn processors_with_vbmi_and_without_give_the_oracles_bits() {
        let Some(isa) = Isa::available().into_iter().find(|isa| isa.name() == "avx512") else {
            eprintln!("skipped: needs AVX-512");
            return;
        };
        let mut kernels = vec![AVX512.int8];
        if isa.has_vbmi() {
            kernels.push(AVX512_VBMI.int8);
        } else {
            eprintln!("kernels with VBMI are not tested: this processor has none");
        }
        for kernels in kernels {
            // One token, a few, many.
            for rows in [3, 7, 20] {
                for cols in [1, 32, 300, 1100] {
                    amx::tests::check(kernels, BlockSize::B64, 2, cols, rows);
                }
            }
        }
    }
}
