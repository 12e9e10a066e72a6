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

/// [`Bf16Unit::weigh`](crate::bf16_unit::Bf16Unit::weigh).
///
/// # Safety
/// The processor must have AVX-512 F, BW and DQ.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx2")]
pub(super) unsafe fn weigh(scores: &[Lanes], top: f32, lines: &mut [RowLine]) -> f32 {
    // That of scores which are all minus infinity stays finite, so that their weights are 0.
    let top = _mm512_set1_ps((top * LOG2_E).max(f32::MIN));
    let mut totals = [_mm512_setzero_ps(); 2];
    // The upper halves of the lanes of two vectors.
    let halves: [u16; 2 * LANES] = std::array::from_fn(|i| 2 * i as u16 + 1);
    // SAFETY: the load is the array.
    let halves = unsafe { _mm512_loadu_si512(halves.as_ptr().cast()) };
    let half_step = _mm512_set1_epi32(0x8000);
    for (line, scores) in lines.iter_mut().zip(scores.as_chunks::<2>().0) {
        let mut bits = [_mm512_setzero_si512(); 2];
        for ((bits, scores), total) in bits.iter_mut().zip(scores).zip(&mut totals) {
            // SAFETY: the load is the array.
            let score = unsafe { _mm512_loadu_ps(scores.as_ptr()) };
            let weight = power(_mm512_fmsub_ps(score, _mm512_set1_ps(LOG2_E), top));
            *total = _mm512_add_ps(*total, weight);
            *bits = _mm512_add_epi32(_mm512_castps_si512(weight), half_step);
        }
        let rounded = _mm512_permutex2var_epi16(bits[0], halves, bits[1]);
        // SAFETY: the store is the line.
        unsafe { _mm512_storeu_si512(line.0.as_mut_ptr().cast(), rounded) };
    }
    _mm512_reduce_add_ps(_mm512_add_ps(totals[0], totals[1]))
}

/// `2^x` of numbers up to 0, or of NaN.
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
