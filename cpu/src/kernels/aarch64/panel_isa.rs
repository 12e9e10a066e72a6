//! Sixteen rows at a time in four registers of NEON.

use core::arch::aarch64::*;
use core::arch::asm;
use std::marker::PhantomData;

use crate::kernels::unpack::{Ahead, PanelIsa};
use crate::vector::{CacheLevel, LINE};

/// Byte 4r + c of register i: column c of four, of row 4i + r.
pub(super) type Codes = [uint8x16_t; 4];
/// A 32-bit integer per row.
pub(super) type Ints = [int32x4_t; 4];
/// A float per row.
pub(super) type Floats = [float32x4_t; 4];

/// How products are summed for a single token: what [`PanelIsa`] says of the functions of these names.
///
/// # Safety
/// As for [`PanelIsa`].
pub(super) trait Products {
    type Dots: Copy;

    unsafe fn no_dots() -> Self::Dots;
    unsafe fn dot(dots: Self::Dots, codes: Codes, x: *const i8) -> Self::Dots;
    unsafe fn ints(dots: Self::Dots) -> Ints;
    unsafe fn dot_signed(ints: Ints, codes: Codes, x: *const i8) -> Ints;
}

/// NEON, with products summed by `P`.
pub(super) struct Neon<P>(PhantomData<P>);

// SAFETY of all blocks: the trait's promises, which each function passes on.
impl<P: Products> PanelIsa for Neon<P> {
    type Codes = Codes;
    type Dots = P::Dots;
    type Ints = Ints;
    type Floats = Floats;

    const OFFSET: u8 = 0;

    fn ahead() -> Ahead {
        Ahead { bytes: 2048, level: CacheLevel::First }
    }

    /// Always into the first-level cache: the speed of no such processor was measured.
    #[inline(always)]
    unsafe fn fetch(address: *const u8, bytes: usize, _level: CacheLevel) {
        let first = address.addr().wrapping_neg() % LINE;
        for line in (first..bytes).step_by(LINE) {
            let line = address.addr().wrapping_add(line);
            // SAFETY: a prefetch of any address is harmless.
            unsafe {
                asm!("prfm pldl1keep, [{}]", in(reg) line, options(nomem, nostack, preserves_flags));
            }
        }
    }

    #[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is executed")]
    #[inline(always)]
    unsafe fn load(codes: *const u8) -> Codes {
        let mut codes = codes;
        // Groups of a block share words. The compiler must not know: it would load them once for all groups, and keep on the
        // stack what does not fit the registers.
        // SAFETY: nothing is executed.
        unsafe { asm!("/* {} */", inout(reg) codes, options(nomem, nostack, preserves_flags)) }
        // SAFETY: as above.
        unsafe { each!(i => vld1q_u8(codes.add(16 * i))) }
    }

    #[inline(always)]
    unsafe fn shift_right(codes: Codes, bits: usize) -> Codes {
        // SAFETY: as above.
        unsafe { each!(i => vshlq_u8(codes[i], vdupq_n_s8(-(bits as i8)))) }
    }

    #[inline(always)]
    unsafe fn shift_left(codes: Codes, bits: usize) -> Codes {
        // SAFETY: as above.
        unsafe { each!(i => vshlq_u8(codes[i], vdupq_n_s8(bits as i8))) }
    }

    #[inline(always)]
    unsafe fn and(codes: Codes, mask: u8) -> Codes {
        // SAFETY: as above.
        unsafe { each!(i => vandq_u8(codes[i], vdupq_n_u8(mask))) }
    }

    #[inline(always)]
    unsafe fn or(a: Codes, b: Codes) -> Codes {
        // SAFETY: as above.
        unsafe { each!(i => vorrq_u8(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn xor(a: Codes, b: Codes) -> Codes {
        // SAFETY: as above.
        unsafe { each!(i => veorq_u8(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn add_codes(a: Codes, b: Codes) -> Codes {
        // SAFETY: as above.
        unsafe { each!(i => vaddq_u8(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn splat_codes(code: u8) -> Codes {
        // SAFETY: as above.
        unsafe { [vdupq_n_u8(code); 4] }
    }

    #[inline(always)]
    unsafe fn carry(codes: Codes, before: Codes) -> Codes {
        // SAFETY: as above.
        unsafe {
            each!(i => {
                let (codes, before) = (vreinterpretq_u32_u8(codes[i]), vreinterpretq_u32_u8(before[i]));
                vreinterpretq_u8_u32(vsriq_n_u32::<24>(vshlq_n_u32::<8>(codes), before))
            })
        }
    }

    #[inline(always)]
    unsafe fn table(entries: &[u8; 16]) -> Codes {
        // SAFETY: as above.
        unsafe { [vld1q_u8(entries.as_ptr()); 4] }
    }

    #[inline(always)]
    unsafe fn lookup(table: Codes, codes: Codes) -> Codes {
        // SAFETY: as above.
        unsafe { each!(i => vqtbl1q_u8(table[i], codes[i])) }
    }

    #[inline(always)]
    unsafe fn choose(plane: Codes, bit: usize, clear: Codes, set: Codes) -> Codes {
        // SAFETY: as above.
        unsafe { each!(i => vbslq_u8(vtstq_u8(plane[i], vdupq_n_u8(1 << bit)), set[i], clear[i])) }
    }

    #[inline(always)]
    unsafe fn no_dots() -> P::Dots {
        // SAFETY: as above.
        unsafe { P::no_dots() }
    }

    #[inline(always)]
    unsafe fn dot(dots: P::Dots, codes: Codes, x: *const i8) -> P::Dots {
        // SAFETY: as above.
        unsafe { P::dot(dots, codes, x) }
    }

    #[inline(always)]
    unsafe fn ints(dots: P::Dots) -> Ints {
        // SAFETY: as above.
        unsafe { P::ints(dots) }
    }

    #[inline(always)]
    unsafe fn no_ints() -> Ints {
        // SAFETY: as above.
        unsafe { [vdupq_n_s32(0); 4] }
    }

    #[inline(always)]
    unsafe fn dot_signed(ints: Ints, codes: Codes, x: *const i8) -> Ints {
        // SAFETY: as above.
        unsafe { P::dot_signed(ints, codes, x) }
    }

    #[inline(always)]
    unsafe fn add_ints(a: Ints, b: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { each!(i => vaddq_s32(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn splat_ints(value: i32) -> Ints {
        // SAFETY: as above.
        unsafe { [vdupq_n_s32(value); 4] }
    }

    #[inline(always)]
    unsafe fn bytes(bytes: *const u8) -> Ints {
        // SAFETY: as above.
        unsafe {
            let bytes = vld1q_s8(bytes.cast());
            let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
            [
                vmovl_s16(vget_low_s16(low)),
                vmovl_high_s16(low),
                vmovl_s16(vget_low_s16(high)),
                vmovl_high_s16(high),
            ]
        }
    }

    #[inline(always)]
    unsafe fn even(ints: Ints) -> Ints {
        // SAFETY: as above.
        unsafe { each!(i => vandq_s32(ints[i], vdupq_n_s32(!1))) }
    }

    #[inline(always)]
    unsafe fn where_odd(ints: Ints, floats: Floats) -> Floats {
        // SAFETY: as above.
        unsafe {
            each!(i => {
                let odd = vtstq_s32(ints[i], vdupq_n_s32(1));
                vreinterpretq_f32_u32(vandq_u32(odd, vreinterpretq_u32_f32(floats[i])))
            })
        }
    }

    #[inline(always)]
    unsafe fn halves(halves: *const u8) -> Floats {
        // SAFETY: as above.
        unsafe { each!(i => vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(halves.add(8 * i))))) }
    }

    #[inline(always)]
    unsafe fn floats(ints: Ints) -> Floats {
        // SAFETY: as above.
        unsafe { each!(i => vcvtq_f32_s32(ints[i])) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Floats {
        // SAFETY: as above.
        unsafe { [vdupq_n_f32(value); 4] }
    }

    #[inline(always)]
    unsafe fn add(a: Floats, b: Floats) -> Floats {
        // SAFETY: as above.
        unsafe { each!(i => vaddq_f32(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn mul(a: Floats, b: Floats) -> Floats {
        // SAFETY: as above.
        unsafe { each!(i => vmulq_f32(a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
        // SAFETY: as above.
        unsafe { each!(i => vfmaq_f32(c[i], a[i], b[i])) }
    }

    #[inline(always)]
    unsafe fn store(floats: Floats, out: *mut f32) {
        for (i, four) in floats.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { vst1q_f32(out.add(4 * i), four) }
        }
    }
}
