//! Weights of attention in bfloat16, by AVX-512.

use core::arch::x86_64::*;
use std::f32::consts::LOG2_E;

use crate::bf16_unit::RowLine;
use crate::lanes::{LANES, Lanes};

/// 2^x for x from 0 to 1, from x^3 down: the polynomial of the least largest error, 7.5e-5 of the result. Bfloat16 has steps
/// of 4e-3 and more.
const POWER: [f32; 4] = [0.078_024_52, 0.226_067_16, 0.695_833_5, 0.999_925_2];
/// Powers of two below are 0: what is smaller takes some processors many cycles.
const LEAST: f32 = -126.0;

/// [`Bf16Unit::weigh`](crate::bf16_unit::Bf16Unit::weigh). Weights are cut, not rounded: the sum is that of what is left, so what
/// all weights lose does not show, and the rest is no more than by rounding. Instructions that convert to bfloat16 take a Xeon with
/// AMX four times as long as those here.
///
/// # Safety
/// The processor must have AVX-512 F and DQ.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx2")]
pub(super) unsafe fn weigh(scores: &[Lanes], origin: f32, lines: &mut [RowLine]) -> Lanes {
    // That of scores which are all minus infinity stays finite, so that their weights are 0.
    let origin = _mm512_set1_ps((origin * LOG2_E).max(f32::MIN));
    let upper = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
    let (mut low_sum, mut high_sum) = (_mm512_setzero_ps(), _mm512_setzero_ps());
    for (line, [low, high]) in lines.iter_mut().zip(scores.as_chunks::<2>().0) {
        // SAFETY: the loads are arrays.
        let (low, high) = unsafe { (_mm512_loadu_ps(low.as_ptr()), _mm512_loadu_ps(high.as_ptr())) };
        let low = power(_mm512_fmsub_ps(low, _mm512_set1_ps(LOG2_E), origin));
        let high = power(_mm512_fmsub_ps(high, _mm512_set1_ps(LOG2_E), origin));
        let low = _mm512_and_si512(_mm512_castps_si512(low), upper);
        let high = _mm512_and_si512(_mm512_castps_si512(high), upper);
        low_sum = _mm512_add_ps(low_sum, _mm512_castsi512_ps(low));
        high_sum = _mm512_add_ps(high_sum, _mm512_castsi512_ps(high));
        let both = _mm512_or_si512(_mm512_srli_epi32::<16>(low), high);
        // SAFETY: the store is the line.
        unsafe { _mm512_storeu_si512(line.0.as_mut_ptr().cast(), both) };
    }
    let mut lanes = [0.0; LANES];
    // SAFETY: the store is the array.
    unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), _mm512_add_ps(low_sum, high_sum)) };
    lanes
}

/// `2^x` of numbers, or of NaN.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn power(x: __m512) -> __m512 {
    // Not NaN.
    let some = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(LEAST));
    let rest = _mm512_reduce_ps::<_MM_FROUND_TO_NEG_INF>(x);
    let mut p = _mm512_set1_ps(POWER[0]);
    for c in &POWER[1..] {
        p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(*c));
    }
    // By 2 to the whole number below.
    _mm512_maskz_scalef_ps(some, p, x)
}
