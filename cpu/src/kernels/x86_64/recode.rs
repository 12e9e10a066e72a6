//! Weights of a type as codes of 8 bits with a scale per wide group.

use core::arch::x86_64::*;
use std::ops::Range;

use qsf_format::CodeTables;

use super::avx512::Avx512;
use super::group::{Group, QUADS};
use super::tiles::Floats;
use crate::activations::ACT_BLOCK;
use crate::kernels::form::Form;
use crate::kernels::learned::Levels;
use crate::kernels::unpack::PanelIsa;

/// Largest code.
const LARGEST: f32 = 127.0;
/// Bits behind the point while a weight in units of its new scale is computed in 16 bits.
const UNSIGNED_BITS: u32 = 8;
const SIGNED_BITS: u32 = 6;

/// Recodes weights of one type: w becomes the nearest multiple of s, a scale of 256 columns of a row that is their largest possible
/// magnitude / 127. Computed in 16 bits, so that a code may be one off where the quotient lies within 0.06 of the middle between two.
/// Weights of trellis types stay as they are, and of `ternary` and `8bit` those of groups whose blocks have equal scales.
pub(super) struct Recoder {
    levels: Levels,
    /// What the type's codes can be at most, or their magnitude where they are signed.
    largest: f32,
}

impl Recoder {
    /// For the type with the id `QUANT`.
    pub(super) fn new<const QUANT: u8>(tables: &CodeTables) -> Recoder {
        let levels = Levels::new::<QUANT>(tables, 0);
        // At least 64: the quotient of the scales must be below 2.
        let largest = Form::<QUANT>::LARGEST.unwrap_or_else(|| levels.largest().max(64));
        let largest = f32::from(largest);
        Recoder { levels, largest }
    }

    /// Scale of a wide group of 16 rows, and what weights are multiplied with for it. Scales that are no numbers give one that is not
    /// finite either, or makes no finite result.
    ///
    /// # Safety
    /// As for [`Group::unpack`] and each of `groups`, which start at a block.
    #[inline(always)]
    pub(super) unsafe fn scale<const QUANT: u8>(
        &self,
        panel: *const u8,
        n: usize,
        groups: Range<usize>,
    ) -> (Floats, Floats) {
        // SAFETY: the caller's promises; there is room for 16 floats.
        unsafe {
            let largest = _mm512_set1_ps(self.largest);
            let mut top = _mm512_setzero_si512();
            let mut group = groups.start;
            while group < groups.end {
                let (a, b) = self.absolute::<QUANT>(panel, Group::scales::<QUANT>(panel, n, group));
                let bound = match (Form::<QUANT>::IS_SIGNED, Form::<QUANT>::HAS_OFFSET) {
                    (true, true) => _mm512_fmadd_ps(_mm512_abs_ps(a), largest, _mm512_abs_ps(b)),
                    (true, false) => _mm512_mul_ps(_mm512_abs_ps(a), largest),
                    _ => {
                        let last = _mm512_abs_ps(_mm512_fmadd_ps(a, largest, b));
                        // As integers, so that NaN counts as above infinity.
                        top = _mm512_max_epi32(top, _mm512_castps_si512(last));
                        _mm512_abs_ps(b)
                    }
                };
                top = _mm512_max_epi32(top, _mm512_castps_si512(bound));
                group += n / ACT_BLOCK;
            }
            let top = _mm512_castsi512_ps(top);
            let steps = _mm512_set1_ps(LARGEST);
            let (mut scales, mut inverse) = (Floats::ZERO, Floats::ZERO);
            _mm512_storeu_ps(scales.0.as_mut_ptr(), _mm512_div_ps(top, steps));
            _mm512_storeu_ps(inverse.0.as_mut_ptr(), _mm512_div_ps(steps, top));
            (scales, inverse)
        }
    }

    /// Scales and offsets of a group of a panel as such, and not in the units of [`result`](crate::kernels::learned::result).
    ///
    /// # Safety
    /// As for [`Group::unpack`].
    #[inline(always)]
    unsafe fn absolute<const QUANT: u8>(
        &self,
        panel: *const u8,
        (a, b): (__m512, __m512),
    ) -> (__m512, __m512) {
        if !Form::<QUANT>::IS_LEARNED {
            return (a, b);
        }
        // SAFETY: the caller's promises.
        unsafe {
            let scale = _mm512_mul_ps(Avx512::halves(panel), _mm512_set1_ps(Form::<QUANT>::ROW_UNIT));
            let shift = _mm512_set1_ps(self.levels.shift());
            (_mm512_mul_ps(a, scale), _mm512_mul_ps(_mm512_mul_ps(b, scale), shift))
        }
    }

    /// Codes of group `group` of 32 columns, with the second of what [`Recoder::scale`] gave: four columns of each row at a time.
    ///
    /// # Safety
    /// As for [`Group::unpack`].
    #[inline(always)]
    pub(super) unsafe fn codes<const QUANT: u8>(
        &self,
        panel: *const u8,
        n: usize,
        group: usize,
        inverse: &Floats,
    ) -> [__m512i; QUADS] {
        // SAFETY: the caller's promises; `inverse` is 16 floats.
        unsafe {
            let Group { mut codes, a, b } = Group::unpack::<QUANT>(&self.levels, panel, n, group);
            let (a, b) = self.absolute::<QUANT>(panel, (a, b));
            let inverse = _mm512_loadu_ps(inverse.0.as_ptr());
            let (a, b) = (_mm512_mul_ps(a, inverse), _mm512_mul_ps(b, inverse));
            let b = if Form::<QUANT>::HAS_OFFSET { b } else { _mm512_setzero_ps() };
            if Form::<QUANT>::IS_SIGNED {
                // The high halves of (256 u) (2^14 a) are 2^6 a u.
                let a = words(a, 0.0, (1 << (8 + SIGNED_BITS)) as f32);
                let b = words(b, 0.5, (1 << SIGNED_BITS) as f32);
                let odd = _mm512_set1_epi16(0xFF00_u16.cast_signed());
                for codes in &mut codes {
                    let even = _mm512_mulhi_epi16(_mm512_slli_epi16::<8>(*codes), a);
                    let odd = _mm512_mulhi_epi16(_mm512_and_si512(*codes, odd), a);
                    let even = _mm512_srli_epi16::<SIGNED_BITS>(_mm512_add_epi16(even, b));
                    let odd = _mm512_slli_epi16::<{ 8 - SIGNED_BITS }>(_mm512_add_epi16(odd, b));
                    *codes = joined(even, odd);
                }
            } else {
                // Modulo 2^16, of which products alone may be more.
                let a = words(a, 0.0, (1 << UNSIGNED_BITS) as f32);
                let b = words(b, 0.5, (1 << UNSIGNED_BITS) as f32);
                let even = _mm512_set1_epi16(0xFF);
                for codes in &mut codes {
                    let even = _mm512_mullo_epi16(_mm512_and_si512(*codes, even), a);
                    let odd = _mm512_mullo_epi16(_mm512_srli_epi16::<8>(*codes), a);
                    let even = _mm512_srli_epi16::<UNSIGNED_BITS>(_mm512_add_epi16(even, b));
                    *codes = joined(even, _mm512_add_epi16(odd, b));
                }
            }
            codes
        }
    }
}

/// The numbers plus `half`, in units of 1 / `unit` and modulo 2^16, twice in each lane.
///
/// # Safety
/// To be called from a function compiled with AVX-512.
#[inline(always)]
unsafe fn words(numbers: __m512, half: f32, unit: f32) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let units = _mm512_fmadd_ps(numbers, _mm512_set1_ps(unit), _mm512_set1_ps(half * unit));
        let units = _mm512_cvtps_epi32(units);
        _mm512_or_si512(_mm512_slli_epi32::<16>(units), _mm512_and_si512(units, _mm512_set1_epi32(0xFFFF)))
    }
}

/// The low bytes of `even` and the high ones of `odd`.
///
/// # Safety
/// As for [`words`].
#[inline(always)]
unsafe fn joined(even: __m512i, odd: __m512i) -> __m512i {
    // Where the mask is set the first, else the second.
    // SAFETY: the caller's promise.
    unsafe { _mm512_ternarylogic_epi32::<0xCA>(_mm512_set1_epi16(0xFF), even, odd) }
}
