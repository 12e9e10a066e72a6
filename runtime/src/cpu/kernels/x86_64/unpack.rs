//! The codes of one group of 32 as bytes in column order, and a block's scales, with AVX2.

use core::arch::x86_64::*;

use qsf_format::QuantType;

pub(super) const Q2_SYM: u8 = QuantType::Q2Sym as u8;
pub(super) const Q2: u8 = QuantType::Q2 as u8;
pub(super) const Q3: u8 = QuantType::Q3 as u8;
pub(super) const Q4: u8 = QuantType::Q4 as u8;
pub(super) const TERNARY: u8 = QuantType::Ternary as u8;
pub(super) const Q8: u8 = QuantType::Q8 as u8;

/// Scale a and offset b of a block of the type with the id `QUANT`, in every lane.
///
/// # Safety
/// `block` must point to a whole block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn scales<const QUANT: u8>(block: *const u8) -> (__m128, __m128) {
    // SAFETY: the smallest block has 2 + 8 bytes, so that the first four of any block may be read.
    let bits = unsafe { block.cast::<i32>().read_unaligned() };
    let halves = _mm_cvtph_ps(_mm_cvtsi32_si128(bits));
    let first = _mm_broadcastss_ps(halves);
    match QUANT {
        Q2_SYM => (_mm_add_ps(first, first), _mm_mul_ps(first, _mm_set1_ps(-3.0))),
        TERNARY => (first, _mm_xor_ps(first, _mm_set1_ps(-0.0))),
        Q8 => (first, _mm_setzero_ps()),
        _ => (first, _mm_broadcastss_ps(_mm_movehdup_ps(halves))),
    }
}

/// Codes of group `g` of a block of `N`: unsigned, but signed for 8-bit.
///
/// # Safety
/// `block` must point to a whole block of the type with the id `QUANT`, and `g` be below `N / 32`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn codes<const QUANT: u8, const N: usize>(block: *const u8, g: usize) -> __m256i {
    // SAFETY: what the callees read lies inside the block, whose layout the offsets follow.
    unsafe {
        match QUANT {
            Q2_SYM => two_bit::<N>(block.add(2), g),
            Q2 => two_bit::<N>(block.add(4), g),
            Q3 => {
                let low = two_bit::<N>(block.add(4), g);
                let high = plane(block.add(4 + N / 4), g);
                _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(4)))
            }
            Q4 => four_bit::<N>(block.add(4), g),
            TERNARY => {
                let sign = plane(block.add(2), g);
                let zero = plane(block.add(2 + N / 8), g);
                let unsigned = _mm256_andnot_si256(sign, _mm256_set1_epi8(2));
                _mm256_blendv_epi8(unsigned, _mm256_set1_epi8(1), zero)
            }
            _ => _mm256_loadu_si256(block.add(2 + 32 * g).cast()),
        }
    }
}

/// Byte i of the N/4 holds elements i, i + N/4, i + N/2 and i + 3N/4.
///
/// # Safety
/// `codes` must point to N/4 bytes, and `g` be below `N / 32`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn two_bit<const N: usize>(codes: *const u8, g: usize) -> __m256i {
    let g4 = 4 * g as i32;
    // SAFETY: each arm reads within N/4 bytes.
    let shifted = unsafe {
        match N {
            32 => {
                let bytes = _mm256_set1_epi64x(codes.cast::<i64>().read_unaligned());
                _mm256_srlv_epi64(bytes, _mm256_setr_epi64x(0, 2, 4, 6))
            }
            64 => {
                let bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(codes.cast()));
                let shifts = _mm256_setr_epi32(g4, g4, g4, g4, g4 + 2, g4 + 2, g4 + 2, g4 + 2);
                _mm256_srlv_epi32(bytes, shifts)
            }
            _ => {
                let vectors = N / 128;
                let bytes = _mm256_loadu_si256(codes.add(32 * (g % vectors)).cast());
                _mm256_srlv_epi32(bytes, _mm256_set1_epi32(2 * (g / vectors) as i32))
            }
        }
    };
    // What was shifted in from the next byte is masked off.
    _mm256_and_si256(shifted, _mm256_set1_epi8(3))
}

/// Byte i of the N/2 holds elements i and i + N/2.
///
/// # Safety
/// `codes` must point to N/2 bytes, and `g` be below `N / 32`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn four_bit<const N: usize>(codes: *const u8, g: usize) -> __m256i {
    // SAFETY: each arm reads within N/2 bytes.
    let shifted = unsafe {
        if N == 32 {
            let bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(codes.cast()));
            _mm256_srlv_epi32(bytes, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4))
        } else {
            let vectors = N / 64;
            let bytes = _mm256_loadu_si256(codes.add(32 * (g % vectors)).cast());
            _mm256_srlv_epi32(bytes, _mm256_set1_epi32(4 * (g / vectors) as i32))
        }
    };
    _mm256_and_si256(shifted, _mm256_set1_epi8(15))
}

/// 0xFF for each set bit of group `g` of a plane of one bit per element.
///
/// # Safety
/// `bits` must point to at least 4 (g + 1) bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn plane(bits: *const u8, g: usize) -> __m256i {
    // SAFETY: the caller's promise.
    let bytes = _mm256_set1_epi32(unsafe { bits.add(4 * g).cast::<i32>().read_unaligned() });
    // Byte i/8 to each i, then bit i%8 of it.
    let ones = 0x0101_0101_0101_0101;
    let spread = _mm256_setr_epi64x(0, ones, 2 * ones, 3 * ones);
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let spread = _mm256_shuffle_epi8(bytes, spread);
    _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit)
}
