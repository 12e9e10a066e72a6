//! The one panel product, compiled for each instruction set and stored type: tiles of one panel and some tokens.

use qsf_format::panels::PANEL_ROWS;

use super::learned::{Head, Levels};
use super::panel::{PanelOut, PanelTask};
use super::unpack::{
    PanelIsa, Q8, code_offset, codes_offset, has_offset, head_bytes, is_learned, quad, scales,
    superblock_bytes,
};
use crate::cpu::activations::ACT_BLOCK;

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
        // Constants as such, here and below: what is not for this type is then not even compiled.
        if const { is_learned(QUANT) } {
            return panels::<I, QUANT>(task, out, ACT_BLOCK);
        }
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
    let panel_bytes = head_bytes(QUANT) + task.blocks * superblock_bytes(QUANT, n);
    let (levels, ahead) = (Levels::new::<QUANT>(task.tables, I::OFFSET), I::ahead());
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
                    tile::<I, QUANT, 8>(task, (&levels, ahead), panel, n, token, PanelOut { start, ..out });
                    token += 8;
                }
                while I::TILE >= 4 && token + 4 <= end {
                    tile::<I, QUANT, 4>(task, (&levels, ahead), panel, n, token, PanelOut { start, ..out });
                    token += 4;
                }
                while token < end {
                    tile::<I, QUANT, 1>(task, (&levels, ahead), panel, n, token, PanelOut { start, ..out });
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
#[inline(always)]
unsafe fn tile<I: PanelIsa, const QUANT: u8, const T: usize>(
    task: &PanelTask<'_>,
    (levels, ahead): (&Levels, usize),
    panel: *const u8,
    n: usize,
    token: usize,
    out: PanelOut,
) {
    let size = superblock_bytes(QUANT, n);
    // SAFETY: offsets stay inside the panel's blocks, the codes (blocks * n <= padded columns), and the groups x tokens
    // scales and sums, by the promises of the caller.
    unsafe {
        let tokens = Tokens::<T>::new(task, token);
        let mut acc = [I::splat(0.0); T];
        let mut acc_b = [I::splat(0.0); T];
        let head =
            if const { is_learned(QUANT) } { Some(Head::<I>::new::<QUANT>(levels, panel)) } else { None };
        for j in 0..task.blocks {
            let block = panel.add(const { head_bytes(QUANT) } + j * size);
            if T == 1 {
                // A single token waits for memory. Past the weights a prefetch does nothing.
                for line in (0..size).step_by(CACHE_LINE) {
                    I::prefetch(block.wrapping_add(ahead + line));
                }
            }
            if const { is_learned(QUANT) } {
                if let Some(head) = &head {
                    let ab = head.scales::<QUANT>(block);
                    let codes = head.codes::<QUANT>(block, j);
                    tokens.add_learned::<I, QUANT>(&codes, j, ab, &mut acc, &mut acc_b);
                }
                continue;
            }
            let ab = scales::<I, QUANT>(block);
            let words = block.add(codes_offset(QUANT));
            if T == 1 && n == 2 * ACT_BLOCK {
                // Not a loop, so that all shifts are known.
                tokens.add_group::<I, QUANT>(words, n, 0, 2 * j, ab, &mut acc, &mut acc_b);
                tokens.add_group::<I, QUANT>(words, n, 1, 2 * j + 1, ab, &mut acc, &mut acc_b);
            } else {
                for g in 0..n / ACT_BLOCK {
                    let group = j * (n / ACT_BLOCK) + g;
                    tokens.add_group::<I, QUANT>(words, n, g, group, ab, &mut acc, &mut acc_b);
                }
            }
        }
        for t in 0..T {
            let sum = if const { has_offset(QUANT) } { I::add(acc[t], acc_b[t]) } else { acc[t] };
            I::store(sum, out.start.add((token + t) * out.stride));
        }
    }
}

/// Runs `$body` for each word of a group. For a single token that is no loop: the compiler does not unroll one with inline
/// assembly in it, and then shifts by numbers that it does not know. For several, a loop leaves it more registers.
macro_rules! each_quad {
    ($i:ident => $body:expr) => {
        if T == 1 {
            each_quad!($i, 0 1 2 3 4 5 6 7, $body);
        } else {
            for $i in 0..QUADS {
                $body
            }
        }
    };
    ($i:ident, $($value:literal)*, $body:expr) => { $({ let $i: usize = $value; $body })* };
}

/// Activations of `T` tokens.
struct Tokens<const T: usize> {
    codes: *const i8,
    scales: *const f32,
    sums: *const f32,
    code_sums: *const i32,
    /// Codes from one token to the next.
    stride: usize,
    /// Scales and sums from one group to the next.
    count: usize,
}

impl<const T: usize> Tokens<T> {
    /// # Safety
    /// The task must have the tokens from `first` on.
    #[inline(always)]
    unsafe fn new(task: &PanelTask<'_>, first: usize) -> Tokens<T> {
        let (input, stride) = (task.input, task.input.stride());
        // SAFETY: the caller's promise.
        unsafe {
            Tokens {
                codes: input.codes().as_ptr().add(first * stride),
                scales: input.scales().as_ptr().add(first),
                sums: input.sums().as_ptr().add(first),
                code_sums: input.code_sums().as_ptr().add(first),
                stride,
                count: input.rows(),
            }
        }
    }

    /// Adds the products of group `g` of a superblock, whose words are `words` and whose scales and offsets are `(a, b)`, with
    /// group `group` of the tokens.
    ///
    /// # Safety
    /// As for [`PanelIsa`]; the groups must be there.
    #[expect(clippy::needless_range_loop, reason = "one index for the tokens of several arrays")]
    #[expect(clippy::too_many_arguments, reason = "the body of a loop that stands in two places")]
    #[inline(always)]
    unsafe fn add_group<I: PanelIsa, const QUANT: u8>(
        &self,
        words: *const u8,
        n: usize,
        g: usize,
        group: usize,
        (a, b): (I::Floats, I::Floats),
        acc: &mut [I::Floats; T],
        acc_b: &mut [I::Floats; T],
    ) {
        // SAFETY: the caller's promises.
        unsafe {
            let x = self.codes.add(group * ACT_BLOCK);
            if QUANT == Q8 {
                let mut sums = [I::no_ints(); T];
                each_quad!(i => {
                    let mut u = quad::<I, QUANT>(words, n, QUADS * g + i);
                    if const { I::OFFSET != 0 } {
                        u = I::add_codes(u, I::splat_codes(I::OFFSET));
                    }
                    for t in 0..T {
                        sums[t] = I::dot_signed(sums[t], u, x.add(t * self.stride + 4 * i));
                    }
                });
                self.add_signed::<I, QUANT>(sums, group, a, acc);
            } else {
                let mut dots = [I::no_dots(); T];
                each_quad!(i => {
                    let u = quad::<I, QUANT>(words, n, QUADS * g + i);
                    for t in 0..T {
                        dots[t] = I::dot(dots[t], u, x.add(t * self.stride + 4 * i));
                    }
                });
                let dx = self.scales.add(group * self.count);
                let sx = self.sums.add(group * self.count);
                for t in 0..T {
                    let isum = I::floats(I::ints(dots[t]));
                    acc[t] = I::fma(I::mul(a, I::splat(*dx.add(t))), isum, acc[t]);
                    acc_b[t] = I::fma(b, I::splat(*sx.add(t)), acc_b[t]);
                }
            }
        }
    }

    /// The same for the codes of a learned type, which are one group of a superblock.
    ///
    /// # Safety
    /// As for [`PanelIsa`]; the group must be there.
    #[expect(clippy::needless_range_loop, reason = "one index for the tokens of several arrays")]
    #[inline(always)]
    unsafe fn add_learned<I: PanelIsa, const QUANT: u8>(
        &self,
        codes: &[I::Codes; QUADS],
        group: usize,
        (a, b): (I::Floats, I::Floats),
        acc: &mut [I::Floats; T],
        acc_b: &mut [I::Floats; T],
    ) {
        // SAFETY: the caller's promises.
        unsafe {
            let x = self.codes.add(group * ACT_BLOCK);
            let mut sums = [I::no_ints(); T];
            each_quad!(i => {
                for t in 0..T {
                    sums[t] = I::dot_signed(sums[t], codes[i], x.add(t * self.stride + 4 * i));
                }
            });
            self.add_signed::<I, QUANT>(sums, group, a, acc);
            if const { has_offset(QUANT) } {
                let sx = self.sums.add(group * self.count);
                for t in 0..T {
                    acc_b[t] = I::fma(b, I::splat(*sx.add(t)), acc_b[t]);
                }
            }
        }
    }

    /// Adds sums that [`PanelIsa::dot_signed`] has made.
    ///
    /// # Safety
    /// As for [`PanelIsa`]; the group must be there.
    #[inline(always)]
    unsafe fn add_signed<I: PanelIsa, const QUANT: u8>(
        &self,
        sums: [I::Ints; T],
        group: usize,
        a: I::Floats,
        acc: &mut [I::Floats; T],
    ) {
        // SAFETY: the caller's promises.
        unsafe {
            let dx = self.scales.add(group * self.count);
            let code_sums = self.code_sums.add(group * self.count);
            let offset = const { code_offset::<I>(QUANT) };
            for t in 0..T {
                let sum =
                    if offset != 0 { I::subtract(sums[t], offset * *code_sums.add(t)) } else { sums[t] };
                acc[t] = I::fma(I::mul(a, I::splat(*dx.add(t))), I::floats(sum), acc[t]);
            }
        }
    }
}
