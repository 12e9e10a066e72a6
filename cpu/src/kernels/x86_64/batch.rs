//! The panel product of several tokens; single ones are handed on. Codes and scales of some groups are unpacked once for up to
//! 128 tokens, into the nearest cache: unpacking in registers would be done again for every few tokens. For up to 8 tokens a
//! block is unpacked at a time.

use core::arch::asm;
use std::mem::MaybeUninit;

use qsf_format::panels::PANEL_ROWS;

use crate::activations::ACT_BLOCK;
use crate::kernels::form::Form;
use crate::kernels::learned::{self, Head, Levels};
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::product;
use crate::kernels::tokens::{QUADS, Tokens};
use crate::kernels::unpack::{PanelIsa, quad, scales};
use crate::vector::CacheLevel;

/// Groups that are unpacked at a time: 10 KiB, a third of a small first-level cache. A multiple of the groups of a block.
const GROUPS: usize = 16;
/// Tokens for which groups are unpacked once: 16 KiB of accumulators, of which a few at a time are at work.
const TOKENS: usize = 128;

/// Unpacked columns of a panel.
struct Group<I: PanelIsa> {
    codes: [I::Codes; QUADS],
    a: I::Floats,
    b: I::Floats,
}

/// What a result grows in.
struct Acc<I: PanelIsa> {
    a: I::Floats,
    b: I::Floats,
}

/// Every panel against every token, for the type with the id `QUANT`: `TILE` tokens at a time, 4 or 8, as many as find room for
/// their sums in registers, or nearly.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); to be called from a function compiled with the instruction set of
/// `I`.
#[inline(always)]
pub(super) unsafe fn matmul<I: PanelIsa, const TILE: usize, const QUANT: u8>(
    task: &PanelTask<'_>,
    out: PanelOut,
) {
    // SAFETY: the caller's promises.
    unsafe {
        if task.tokens.len() > 1 {
            let first = task.tokens.start;
            match task.tokens.len() {
                2 => few::<I, QUANT, 2>(task, first, out),
                3 => few::<I, QUANT, 3>(task, first, out),
                4 => few::<I, QUANT, 4>(task, first, out),
                5 if TILE == 8 => few::<I, QUANT, 5>(task, first, out),
                6 if TILE == 8 => few::<I, QUANT, 6>(task, first, out),
                7 if TILE == 8 => few::<I, QUANT, 7>(task, first, out),
                8 if TILE == 8 => few::<I, QUANT, 8>(task, first, out),
                _ => panels::<I, TILE, QUANT>(task, out),
            }
        } else {
            product::matmul::<I, QUANT>(task, out);
        }
    }
}

/// # Safety
/// As for [`matmul`].
#[inline(always)]
unsafe fn panels<I: PanelIsa, const TILE: usize, const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    let n = if Form::<QUANT>::IS_LEARNED { ACT_BLOCK } else { task.block.get() };
    let panel_bytes = Form::<QUANT>::HEAD_BYTES + task.blocks * Form::<QUANT>::superblock_bytes(n);
    let levels = Levels::new::<QUANT>(task.tables, I::OFFSET);
    let groups = task.blocks * (n / ACT_BLOCK);
    let mut unpacked = [const { MaybeUninit::<Group<I>>::uninit() }; GROUPS];
    let mut acc = [const { MaybeUninit::<Acc<I>>::uninit() }; TOKENS];
    for first in task.tokens.clone().step_by(TOKENS) {
        let count = TOKENS.min(task.tokens.end - first);
        for p in 0..task.panels {
            // SAFETY: the task has the panels with their groups and the tokens, and the output room for all of them; a chunk of
            // groups starts with a block.
            unsafe {
                let panel = task.weights.as_ptr().add(p * panel_bytes);
                for acc in &mut acc[..count] {
                    acc.write(Acc { a: I::splat(0.0), b: I::splat(0.0) });
                }
                for chunk in (0..groups).step_by(GROUPS) {
                    let unpacked = &mut unpacked[..GROUPS.min(groups - chunk)];
                    if Form::<QUANT>::IS_LEARNED {
                        unpack_learned::<I, QUANT>(&levels, panel, chunk, unpacked);
                    } else if n == 64 {
                        unpack::<I, QUANT>(panel, 64, chunk, unpacked);
                    } else {
                        unpack::<I, QUANT>(panel, n, chunk, unpacked);
                    }
                    let mut t = 0;
                    while t + TILE <= count {
                        tile::<I, QUANT, TILE>(task, unpacked, chunk, first + t, acc.as_mut_ptr().add(t));
                        t += TILE;
                    }
                    while TILE > 4 && t + 4 <= count {
                        tile::<I, QUANT, 4>(task, unpacked, chunk, first + t, acc.as_mut_ptr().add(t));
                        t += 4;
                    }
                    while t < count {
                        tile::<I, QUANT, 1>(task, unpacked, chunk, first + t, acc.as_mut_ptr().add(t));
                        t += 1;
                    }
                }
                for (t, acc) in acc[..count].iter().enumerate() {
                    let acc = acc.assume_init_ref();
                    let sum = learned::result::<I, QUANT>(&levels, panel, acc.a, acc.b);
                    I::store(sum, out.start.add((first + t) * out.stride + PANEL_ROWS * p));
                }
            }
        }
    }
}

/// Every panel against `T` tokens from `token` on: a block is unpacked when it is multiplied, so that both, and the wait for memory,
/// overlap.
///
/// # Safety
/// As for [`matmul`]; the task must have these tokens.
#[inline(always)]
unsafe fn few<I: PanelIsa, const QUANT: u8, const T: usize>(
    task: &PanelTask<'_>,
    token: usize,
    out: PanelOut,
) {
    let n = if Form::<QUANT>::IS_LEARNED { ACT_BLOCK } else { task.block.get() };
    let panel_bytes = Form::<QUANT>::HEAD_BYTES + task.blocks * Form::<QUANT>::superblock_bytes(n);
    let levels = Levels::new::<QUANT>(task.tables, I::OFFSET);
    let per_block = n / ACT_BLOCK;
    let mut unpacked = [const { MaybeUninit::<Group<I>>::uninit() }; GROUPS];
    let unpacked = &mut unpacked[..per_block];
    for p in 0..task.panels {
        // SAFETY: the task has the panels with their groups and the tokens, and the output room for all of them.
        unsafe {
            let panel = task.weights.as_ptr().add(p * panel_bytes);
            let tokens = Tokens::<T>::new(task, token);
            let mut acc = [I::splat(0.0); T];
            let mut acc_b = [I::splat(0.0); T];
            for first in (0..task.blocks * per_block).step_by(per_block) {
                if Form::<QUANT>::IS_LEARNED {
                    unpack_learned::<I, QUANT>(&levels, panel, first, unpacked);
                } else if n == 64 {
                    unpack::<I, QUANT>(panel, 64, first, unpacked);
                } else {
                    unpack::<I, QUANT>(panel, n, first, unpacked);
                }
                for (group, unpacked) in (first..).zip(&*unpacked) {
                    let unpacked = unpacked.assume_init_ref();
                    add_group::<I, QUANT, T>(&tokens, group, unpacked, &mut acc, &mut acc_b);
                }
            }
            for t in 0..T {
                let sum = learned::result::<I, QUANT>(&levels, panel, acc[t], acc_b[t]);
                I::store(sum, out.start.add((token + t) * out.stride + PANEL_ROWS * p));
            }
        }
    }
}

/// Fills `unpacked` with the groups from `first` on of a panel of a type that is not learned, in blocks of `n`. What is unpacked next
/// is fetched meanwhile: with few tokens memory would wait for the products, and these for memory.
///
/// # Safety
/// As for [`matmul`]; `panel` must point to a panel that has the groups, and `first` be the first of a block.
#[inline(always)]
unsafe fn unpack<I: PanelIsa, const QUANT: u8>(
    panel: *const u8,
    n: usize,
    first: usize,
    unpacked: &mut [MaybeUninit<Group<I>>],
) {
    let (per_block, size) = (n / ACT_BLOCK, Form::<QUANT>::superblock_bytes(n));
    for (j, of_block) in unpacked.chunks_mut(per_block).enumerate() {
        // SAFETY: the caller's promises.
        unsafe {
            let block = panel.add((first / per_block + j) * size);
            I::fetch(block.wrapping_add(GROUPS / per_block * size), size, CacheLevel::Second);
            let (a, b) = scales::<I, QUANT>(block);
            let words = block.add(Form::<QUANT>::CODES_OFFSET);
            for (g, unpacked) in of_block.iter_mut().enumerate() {
                let mut codes = [I::splat_codes(0); QUADS];
                for (i, codes) in codes.iter_mut().enumerate() {
                    *codes = quad::<I, QUANT>(words, n, QUADS * g + i);
                    if Form::<QUANT>::IS_SIGNED && const { I::OFFSET != 0 } {
                        *codes = I::add_codes(*codes, I::splat_codes(I::OFFSET));
                    }
                }
                unpacked.write(Group { codes, a, b });
            }
        }
    }
}

/// [`unpack`] for a learned type, whose blocks are groups.
///
/// # Safety
/// As for [`unpack`].
#[inline(always)]
unsafe fn unpack_learned<I: PanelIsa, const QUANT: u8>(
    levels: &Levels,
    panel: *const u8,
    first: usize,
    unpacked: &mut [MaybeUninit<Group<I>>],
) {
    let size = Form::<QUANT>::superblock_bytes(ACT_BLOCK);
    // SAFETY: the caller's promises.
    unsafe {
        let head = Head::<I>::new::<QUANT>(levels);
        for (j, unpacked) in (first..).zip(unpacked) {
            let block = panel.add(Form::<QUANT>::HEAD_BYTES + j * size);
            I::fetch(block.wrapping_add(GROUPS * size), size, CacheLevel::Second);
            let (a, b) = learned::scales::<I, QUANT>(block);
            unpacked.write(Group { codes: head.codes::<QUANT>(block, j), a, b });
        }
    }
}

/// Adds to `acc` what the groups, of which the first is `first`, give with `T` tokens from `token` on.
///
/// # Safety
/// As for [`matmul`]; `acc` must point to `T` accumulators, which like the groups are initialized, and the task have the tokens
/// and groups.
#[inline(always)]
unsafe fn tile<I: PanelIsa, const QUANT: u8, const T: usize>(
    task: &PanelTask<'_>,
    groups: &[MaybeUninit<Group<I>>],
    first: usize,
    token: usize,
    acc: *mut MaybeUninit<Acc<I>>,
) {
    // SAFETY: the caller's promises.
    unsafe {
        let tokens = Tokens::<T>::new(task, token);
        let accs = &mut *acc.cast::<[Acc<I>; T]>();
        let mut acc = [I::splat(0.0); T];
        let mut acc_b = [I::splat(0.0); T];
        for t in 0..T {
            (acc[t], acc_b[t]) = (accs[t].a, accs[t].b);
        }
        for (group, unpacked) in (first..).zip(groups) {
            add_group::<I, QUANT, T>(&tokens, group, unpacked.assume_init_ref(), &mut acc, &mut acc_b);
        }
        for t in 0..T {
            (accs[t].a, accs[t].b) = (acc[t], acc_b[t]);
        }
    }
}

/// Adds what an unpacked group, number `group`, gives with `T` tokens.
///
/// # Safety
/// As for [`matmul`]; the tokens must have the group.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "one index for the tokens of several arrays")]
unsafe fn add_group<I: PanelIsa, const QUANT: u8, const T: usize>(
    tokens: &Tokens<T>,
    group: usize,
    unpacked: &Group<I>,
    acc: &mut [I::Floats; T],
    acc_b: &mut [I::Floats; T],
) {
    let Group { codes, a, b } = unpacked;
    // SAFETY: the caller's promises.
    unsafe {
        let (mut codes, mut quad) = (codes.as_ptr(), 0);
        let end = opaque(codes.add(QUADS));
        if Form::<QUANT>::IS_SIGNED {
            let mut sums = [I::no_ints(); T];
            for t in 0..T {
                sums[t] = tokens.start_signed::<I, QUANT>(group, t);
            }
            while codes != end {
                for t in 0..T {
                    sums[t] = I::dot_signed(sums[t], *codes, tokens.quad(group, quad, t));
                }
                (codes, quad) = (codes.add(1), quad + 1);
            }
            tokens.add_sums::<I>(sums, group, *a, acc);
        } else {
            let mut dots = [I::no_dots(); T];
            while codes != end {
                for t in 0..T {
                    dots[t] = I::dot(dots[t], *codes, tokens.quad(group, quad, t));
                }
                (codes, quad) = (codes.add(1), quad + 1);
            }
            let mut sums = [I::no_ints(); T];
            for t in 0..T {
                sums[t] = I::ints(dots[t]);
            }
            tokens.add_sums::<I>(sums, group, *a, acc);
        }
        tokens.add_offsets::<I, QUANT>(group, *b, acc_b);
    }
}

/// `pointer`, of which the compiler then knows nothing. It would unroll a loop over a known number of words, do one token after
/// the other, and load the codes again for each.
#[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is executed")]
#[inline(always)]
pub(super) fn opaque<T>(mut pointer: *const T) -> *const T {
    // SAFETY: nothing is executed.
    unsafe { asm!("/* {} */", inout(reg) pointer, options(nomem, nostack, preserves_flags)) }
    pointer
}
