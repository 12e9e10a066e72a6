//! Int8 matrix products with AVX2: the arithmetic of `int8`, eight lanes in one register.

use core::arch::x86_64::*;

use crate::cpu::activations::{ACT_BLOCK, Int8Rows};
use crate::cpu::kernels::int8::Int8Task;

use super::unpack::{self, Q8};

/// Bytes from the block at work to the one that is fetched from memory: a page, at whose end the processor's own prefetching
/// stops.
const AHEAD: usize = 4096;
/// Rows of a tile: two chains of additions even for a single token.
const ROWS: usize = 2;
/// Tokens of the large tile, which share the unpacked codes.
const TOKENS: usize = 4;
/// Codes of tokens that are worked through before the next rows: they stay in the nearest cache.
const TOKEN_BYTES: usize = 16 << 10;

/// Every row against every token, for the type with the id `QUANT`.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C, and `out` must hold `task.len()` values.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn matmul<const QUANT: u8>(task: Int8Task<'_>, out: &mut [f32]) {
    // SAFETY: the caller's promises.
    unsafe {
        match task.block.get() {
            32 => matmul_blocks::<QUANT, 32>(task, out),
            64 => matmul_blocks::<QUANT, 64>(task, out),
            128 => matmul_blocks::<QUANT, 128>(task, out),
            _ => matmul_blocks::<QUANT, 256>(task, out),
        }
    }
}

/// # Safety
/// As for [`matmul`], and `task.block` must be `N`.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn matmul_blocks<const QUANT: u8, const N: usize>(task: Int8Task<'_>, out: &mut [f32]) {
    let tokens = task.input.rows();
    let step = (TOKEN_BYTES / task.input.stride().max(1)).next_multiple_of(TOKENS).max(TOKENS);
    for first in (0..tokens).step_by(step) {
        let end = tokens.min(first + step);
        for row in (0..task.rows).step_by(ROWS) {
            // An odd last row is computed twice rather than by code of its own.
            let rows = [row, (row + 1).min(task.rows - 1)];
            let starts = rows.map(|row| task.weights[row * task.row_bytes..].as_ptr());
            let mut token = first;
            while token + TOKENS <= end {
                // SAFETY: both rows have `task.blocks` blocks, and the tokens exist.
                let sums = unsafe { tile::<QUANT, N, TOKENS>(starts, task.blocks, task.input, token) };
                for (row, sums) in rows.into_iter().zip(sums) {
                    out[row * tokens + token..][..TOKENS].copy_from_slice(&sums);
                }
                token += TOKENS;
            }
            while token < end {
                // SAFETY: as above.
                let sums = unsafe { tile::<QUANT, N, 1>(starts, task.blocks, task.input, token) };
                for (row, [sum]) in rows.into_iter().zip(sums) {
                    out[row * tokens + token] = sum;
                }
                token += 1;
            }
        }
    }
}

/// Two rows against `T` tokens from `token` on; `T` is 1 or 4.
///
/// # Safety
/// Each pointer must have `blocks` blocks of `N` codes behind it, `input` at least as many columns (padding included) and
/// `T` tokens from `token` on.
#[expect(clippy::needless_range_loop, reason = "one index for rows or tokens of several arrays")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<const QUANT: u8, const N: usize, const T: usize>(
    starts: [*const u8; ROWS],
    blocks: usize,
    input: &Int8Rows,
    token: usize,
) -> [[f32; T]; ROWS] {
    let tokens = input.rows();
    let stride = input.stride();
    let size = block_bytes::<QUANT, N>();
    let codes = input.codes()[token * stride..].as_ptr();
    let scales = input.scales()[token..].as_ptr();
    let sums = input.sums()[token..].as_ptr();
    let mut acc = [[_mm256_setzero_ps(); T]; ROWS];
    let mut acc_b = [_mm_setzero_ps(); ROWS];
    for index in 0..blocks {
        // SAFETY: offsets stay inside the blocks, the codes (blocks * N <= stride), and the groups x tokens scales and
        // sums, by the promises of the caller.
        unsafe {
            let block = starts.map(|start| start.add(index * size));
            if T == 1 && index % (64 / size).max(1) == 0 {
                // A single token waits for memory. Past the weights a prefetch does nothing.
                for block in block {
                    _mm_prefetch::<_MM_HINT_T0>(block.wrapping_add(AHEAD).cast());
                }
            }
            let ab = [unpack::scales::<QUANT>(block[0]), unpack::scales::<QUANT>(block[1])];
            for g in 0..N / ACT_BLOCK {
                let group = index * (N / ACT_BLOCK) + g;
                let u = [unpack::codes::<QUANT, N>(block[0], g), unpack::codes::<QUANT, N>(block[1], g)];
                // `a * dx` for all tokens at once, then from the low lane of a rotated register to all lanes.
                let dx = first_tokens::<T>(scales.add(group * tokens));
                let scales = [_mm_mul_ps(ab[0].0, dx), _mm_mul_ps(ab[1].0, dx)];
                for t in 0..T {
                    let x = _mm256_loadu_si256(codes.add(t * stride + group * ACT_BLOCK).cast());
                    let lane = _mm256_set1_epi32(t as i32);
                    for r in 0..ROWS {
                        let isum = _mm256_cvtepi32_ps(isum::<QUANT>(u[r], x));
                        let scale = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(scales[r]), lane);
                        acc[r][t] = _mm256_fmadd_ps(scale, isum, acc[r][t]);
                    }
                }
                if QUANT != Q8 {
                    let sx = first_tokens::<T>(sums.add(group * tokens));
                    for r in 0..ROWS {
                        acc_b[r] = _mm_fmadd_ps(ab[r].1, sx, acc_b[r]);
                    }
                }
            }
        }
    }
    let mut out = [[0.0; T]; ROWS];
    for r in 0..ROWS {
        let mut b = [0.0; 4];
        // SAFETY: four floats fit.
        unsafe { _mm_storeu_ps(b.as_mut_ptr(), acc_b[r]) };
        for t in 0..T {
            out[r][t] = tree(acc[r][t]) + b[t];
        }
    }
    out
}

/// The values of `T` tokens; zeros in lanes without a token.
///
/// # Safety
/// `T` values must be there.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn first_tokens<const T: usize>(values: *const f32) -> __m128 {
    // SAFETY: the caller's promise; `T` is 1 or 4.
    unsafe { if T == TOKENS { _mm_loadu_ps(values) } else { _mm_load_ss(&*values) } }
}

/// Bytes of a block, as `QuantType::block_bytes` has it.
const fn block_bytes<const QUANT: u8, const N: usize>() -> usize {
    match QUANT {
        unpack::Q2_SYM | unpack::TERNARY => 2 + N / 4,
        unpack::Q2 => 4 + N / 4,
        unpack::Q3 => 4 + N / 4 + N / 8,
        unpack::Q4 => 4 + N / 2,
        _ => 2 + N,
    }
}

/// Sums of four products each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn isum<const QUANT: u8>(u: __m256i, x: __m256i) -> __m256i {
    // A pair of products is at most 2 * 15 * 127 with unsigned codes and 2 * 128 * 127 with 8-bit ones, whose sign goes
    // to x: below the 32767 at which the instruction saturates.
    let pairs = match QUANT {
        Q8 => _mm256_maddubs_epi16(_mm256_abs_epi8(u), _mm256_sign_epi8(x, u)),
        _ => _mm256_maddubs_epi16(u, x),
    };
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

/// `int8::tree` in registers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn tree(v: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}
