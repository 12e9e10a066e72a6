//! The one panel product, compiled for each instruction set and stored type: tiles of one panel and some tokens.

use qsf_format::panels::PANEL_ROWS;

use super::panel::{PanelOut, PanelTask};
use super::unpack::{PanelIsa, Q8, codes_offset, quad, scales, superblock_bytes};
use crate::cpu::activations::ACT_BLOCK;

/// Bytes from the superblock at work to the one that is fetched from memory: the processor's own prefetching stops at the
/// end of a page.
const AHEAD: usize = 2048;
const CACHE_LINE: usize = 64;
/// Codes of tokens that are worked through before the next panel: they stay in the second-level cache.
const TOKEN_BYTES: usize = 256 << 10;
/// Words of four codes in a group of activations.
const QUADS: usize = ACT_BLOCK / 4;

/// Every panel against every token, for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](super::panel::PanelFn); to be called from a function compiled with the instruction set of `I`.
#[inline(always)]
pub(super) unsafe fn matmul<I: PanelIsa, const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // The default block size is compiled with all shifts and offsets known, the others share one slower copy.
    // SAFETY: the caller's promises.
    unsafe {
        match task.block.get() {
            64 => panels::<I, QUANT>(task, out, 64),
            n => panels::<I, QUANT>(task, out, n),
        }
    }
}

/// # Safety
/// As for [`matmul`], and `n` must be the task's block size.
#[inline(always)]
unsafe fn panels<I: PanelIsa, const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut, n: usize) {
    let panel_bytes = task.blocks * superblock_bytes(QUANT, n);
    let step = (TOKEN_BYTES / task.input.stride()).next_multiple_of(I::TILE).max(I::TILE);
    for first in task.tokens.clone().step_by(step) {
        let end = task.tokens.end.min(first + step);
        for p in 0..task.panels {
            let mut token = first;
            // SAFETY: the task has the panels and the tokens, and the output room for all of them.
            unsafe {
                let panel = task.weights.as_ptr().add(p * panel_bytes);
                let start = out.start.add(PANEL_ROWS * p);
                while I::TILE == 8 && token + 8 <= end {
                    tile::<I, QUANT, 8>(task, panel, n, token, PanelOut { start, ..out });
                    token += 8;
                }
                while token + 4 <= end {
                    tile::<I, QUANT, 4>(task, panel, n, token, PanelOut { start, ..out });
                    token += 4;
                }
                while token < end {
                    tile::<I, QUANT, 1>(task, panel, n, token, PanelOut { start, ..out });
                    token += 1;
                }
            }
        }
    }
}

/// One panel against `T` tokens from `token` on, into `out`, which starts at the panel's rows of token 0.
///
/// # Safety
/// As for [`panels`]; `panel` must point to a panel of the task, and the tokens exist.
#[expect(clippy::needless_range_loop, reason = "one index for the tokens of several arrays")]
#[inline(always)]
unsafe fn tile<I: PanelIsa, const QUANT: u8, const T: usize>(
    task: &PanelTask<'_>,
    panel: *const u8,
    n: usize,
    token: usize,
    out: PanelOut,
) {
    let (tokens, stride) = (task.input.rows(), task.input.stride());
    let size = superblock_bytes(QUANT, n);
    // SAFETY: offsets stay inside the panel's blocks, the codes (blocks * n <= padded columns), and the groups x tokens
    // scales and sums, by the promises of the caller.
    unsafe {
        let codes = task.input.codes().as_ptr().add(token * stride);
        let all_scales = task.input.scales().as_ptr().add(token);
        let all_sums = task.input.sums().as_ptr().add(token);
        let all_code_sums = task.input.code_sums().as_ptr().add(token);
        let mut acc = [I::splat(0.0); T];
        let mut acc_b = [I::splat(0.0); T];
        for j in 0..task.blocks {
            let block = panel.add(j * size);
            if T == 1 {
                // A single token waits for memory. Past the weights a prefetch does nothing.
                for line in (0..size).step_by(CACHE_LINE) {
                    I::prefetch(block.wrapping_add(AHEAD + line));
                }
            }
            let (a, b) = scales::<I, QUANT>(block);
            let words = block.add(codes_offset(QUANT));
            for g in 0..n / ACT_BLOCK {
                let group = j * (n / ACT_BLOCK) + g;
                let x = codes.add(group * ACT_BLOCK);
                let dx = all_scales.add(group * tokens);
                if QUANT == Q8 {
                    let mut sums = [I::no_ints(); T];
                    for i in 0..QUADS {
                        let u = quad::<I, QUANT>(words, n, QUADS * g + i);
                        for t in 0..T {
                            sums[t] = I::dot_signed(sums[t], u, x.add(t * stride + 4 * i));
                        }
                    }
                    let code_sums = all_code_sums.add(group * tokens);
                    for t in 0..T {
                        let isum = I::floats(I::without_offset(sums[t], *code_sums.add(t)));
                        acc[t] = I::fma(I::mul(a, I::splat(*dx.add(t))), isum, acc[t]);
                    }
                } else {
                    let mut dots = [I::no_dots(); T];
                    for i in 0..QUADS {
                        let u = quad::<I, QUANT>(words, n, QUADS * g + i);
                        for t in 0..T {
                            dots[t] = I::dot(dots[t], u, x.add(t * stride + 4 * i));
                        }
                    }
                    let sx = all_sums.add(group * tokens);
                    for t in 0..T {
                        let isum = I::floats(I::ints(dots[t]));
                        acc[t] = I::fma(I::mul(a, I::splat(*dx.add(t))), isum, acc[t]);
                        acc_b[t] = I::fma(b, I::splat(*sx.add(t)), acc_b[t]);
                    }
                }
            }
        }
        for t in 0..T {
            let sum = if QUANT == Q8 { acc[t] } else { I::add(acc[t], acc_b[t]) };
            I::store(sum, out.start.add((token + t) * out.stride));
        }
    }
}
