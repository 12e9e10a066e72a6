//! The panel product of a single token, compiled for each instruction set and stored type. Several tokens are for the `batch` of
//! a processor family.

use qsf_format::panels::PANEL_ROWS;

use super::form::Form;
use super::learned::{self, Head, Levels};
use super::panel::{PanelOut, PanelTask};
use super::tokens::{QUADS, Tokens};
use super::unpack::{Ahead, PanelIsa, quad, scales};
use crate::activations::ACT_BLOCK;

/// Runs `$body` for each word of a group. No loop: the compiler does not unroll one with inline assembly in it, and then shifts
/// by numbers that it does not know.
macro_rules! each_quad {
    ($i:ident => $body:expr) => { each_quad!($i, 0 1 2 3 4 5 6 7, $body) };
    ($i:ident, $($value:literal)*, $body:expr) => { $({ let $i: usize = $value; $body })* };
}

/// Every panel against every token, one at a time, for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](super::panel::PanelFn); to be called from a function compiled with the instruction set of `I`.
#[inline(always)]
pub(super) unsafe fn matmul<I: PanelIsa, const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // The default block size is compiled with all shifts and offsets known, the others share one slower copy.
    // SAFETY: the caller's promises.
    unsafe {
        if Form::<QUANT>::IS_LEARNED {
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
    let panel_bytes = Form::<QUANT>::HEAD_BYTES + task.blocks * Form::<QUANT>::superblock_bytes(n);
    let (levels, ahead) = (Levels::new::<QUANT>(task.tables, I::OFFSET), I::ahead());
    let head = if Form::<QUANT>::IS_LEARNED {
        // SAFETY: the caller's promise.
        Some(unsafe { Head::<I>::new::<QUANT>(&levels) })
    } else {
        None
    };
    let of_type = OfType { levels, head };
    for token in task.tokens.clone() {
        for p in 0..task.panels {
            // SAFETY: the task has the panels and the tokens, and the output room for all of them.
            unsafe {
                let panel = task.weights.as_ptr().add(p * panel_bytes);
                let start = out.start.add(PANEL_ROWS * p);
                one::<I, QUANT>(task, &of_type, ahead, panel, n, token, PanelOut { start, ..out });
            }
        }
    }
}

/// What all panels of a learned type share, and nothing of another.
struct OfType<I: PanelIsa> {
    levels: Levels,
    head: Option<Head<I>>,
}

/// One panel against one token, into `out`, which starts at the panel's rows of token 0. What is `ahead` of the superblock at work
/// is fetched.
///
/// # Safety
/// As for [`panels`]; `panel` must point to a panel of the task, and the token exist.
#[inline(always)]
unsafe fn one<I: PanelIsa, const QUANT: u8>(
    task: &PanelTask<'_>,
    of_type: &OfType<I>,
    ahead: Ahead,
    panel: *const u8,
    n: usize,
    token: usize,
    out: PanelOut,
) {
    let size = Form::<QUANT>::superblock_bytes(n);
    // SAFETY: offsets stay inside the panel's blocks, the codes (blocks * n <= padded columns), and the groups x tokens
    // scales and sums, by the promises of the caller.
    unsafe {
        let tokens = Tokens::<1>::new(task, token);
        let mut acc = [I::splat(0.0)];
        let mut acc_b = [I::splat(0.0)];
        for j in 0..task.blocks {
            let block = panel.add(Form::<QUANT>::HEAD_BYTES + j * size);
            I::fetch(block.wrapping_add(ahead.bytes), size, ahead.level);
            if Form::<QUANT>::IS_LEARNED {
                if let Some(head) = &of_type.head {
                    let (a, b) = learned::scales::<I, QUANT>(block);
                    let codes = head.codes::<QUANT>(block, j);
                    let mut sums = [tokens.start_signed::<I, QUANT>(j, 0), I::no_ints()];
                    each_quad!(i => sums[i % 2] = I::dot_signed(sums[i % 2], codes[i], tokens.quad(j, i, 0)));
                    let sum = I::add_ints(sums[0], sums[1]);
                    tokens.add_sums::<I>([sum], j, a, &mut acc);
                    tokens.add_offsets::<I, QUANT>(j, b, &mut acc_b);
                }
                continue;
            }
            let (a, b) = scales::<I, QUANT>(block);
            let block = Superblock::<I> { words: block.add(Form::<QUANT>::CODES_OFFSET), n, a, b };
            if n == 2 * ACT_BLOCK {
                // Not a loop, so that all shifts are known.
                add_group::<I, QUANT>(&tokens, block, 0, 2 * j, &mut acc, &mut acc_b);
                add_group::<I, QUANT>(&tokens, block, 1, 2 * j + 1, &mut acc, &mut acc_b);
            } else {
                for g in 0..n / ACT_BLOCK {
                    let group = j * (n / ACT_BLOCK) + g;
                    add_group::<I, QUANT>(&tokens, block, g, group, &mut acc, &mut acc_b);
                }
            }
        }
        let sum = learned::result::<I, QUANT>(&of_type.levels, panel, acc[0], acc_b[0]);
        I::store(sum, out.start.add(token * out.stride));
    }
}

/// A superblock of `n` values of a type that is not learned.
struct Superblock<I: PanelIsa> {
    /// Where its words of codes are.
    words: *const u8,
    n: usize,
    /// Scales and offsets of its rows.
    a: I::Floats,
    b: I::Floats,
}

impl<I: PanelIsa> Clone for Superblock<I> {
    #[inline(always)]
    fn clone(&self) -> Superblock<I> {
        *self
    }
}

impl<I: PanelIsa> Copy for Superblock<I> {}

/// Adds the products of group `g` of a superblock with group `group` of the token.
///
/// # Safety
/// As for [`PanelIsa`]; the groups must be there.
#[inline(always)]
unsafe fn add_group<I: PanelIsa, const QUANT: u8>(
    tokens: &Tokens<1>,
    block: Superblock<I>,
    g: usize,
    group: usize,
    acc: &mut [I::Floats; 1],
    acc_b: &mut [I::Floats; 1],
) {
    let Superblock { words, n, a, b } = block;
    // SAFETY: the caller's promises.
    unsafe {
        if Form::<QUANT>::IS_SIGNED {
            let mut sum = tokens.start_signed::<I, QUANT>(group, 0);
            each_quad!(i => {
                let mut u = quad::<I, QUANT>(words, n, QUADS * g + i);
                if const { I::OFFSET != 0 } {
                    u = I::add_codes(u, I::splat_codes(I::OFFSET));
                }
                sum = I::dot_signed(sum, u, tokens.quad(group, i, 0));
            });
            tokens.add_sums::<I>([sum], group, a, acc);
        } else {
            let mut dots = I::no_dots();
            each_quad!(i => {
                dots = I::dot(dots, quad::<I, QUANT>(words, n, QUADS * g + i), tokens.quad(group, i, 0));
            });
            tokens.add_sums::<I>([I::ints(dots)], group, a, acc);
            tokens.add_offsets::<I, QUANT>(group, b, acc_b);
        }
    }
}
