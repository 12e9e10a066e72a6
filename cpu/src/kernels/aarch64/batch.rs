//! The panel product of several tokens. Registers are too few for the accumulators of many, and an instruction sums too few
//! products to pay for unpacking: the codes of a group are unpacked once for as many tokens as their accumulators find room
//! in the nearest cache.

use core::arch::aarch64::*;

use qsf_format::panels::PANEL_ROWS;

use crate::activations::ACT_BLOCK;
use crate::kernels::form::Form;
use crate::kernels::learned::{self, Head, Levels};
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::unpack::{PanelIsa, quad, scales};

use super::panel_isa::{Codes, Floats, Ints, Neon, Products};

/// Tokens for which codes are unpacked once: 4 KiB of accumulators.
const TOKENS: usize = 32;
/// Words of four codes in a group of activations, two by two.
const PAIRS: usize = ACT_BLOCK / 8;

/// How products are summed for several tokens.
///
/// # Safety
/// As for [`PanelIsa`].
pub(super) trait TileProducts {
    /// Tokens whose sums fit the registers: 2 or 4.
    const TILE: usize;

    /// The codes of eight columns as `sums` wants them.
    unsafe fn arrange(columns: [Codes; 2]) -> [Codes; 2];

    /// Sums of the products of a group's arranged codes, of the type with the id `QUANT`, with the 32 codes at each of `x`.
    unsafe fn sums<const QUANT: u8, const T: usize>(
        codes: &[[Codes; 2]; PAIRS],
        x: [*const i8; T],
    ) -> [Ints; T];
}

/// What a result grows in.
#[derive(Clone, Copy)]
struct Acc {
    a: Floats,
    b: Floats,
}

/// Every panel against every token, for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); to be called from a function compiled with the instruction sets of
/// `P` and `S`.
#[inline(always)]
pub(super) unsafe fn matmul<P: Products, S: TileProducts, const QUANT: u8>(
    task: &PanelTask<'_>,
    out: PanelOut,
) {
    let panel_bytes =
        Form::<QUANT>::HEAD_BYTES + task.blocks * Form::<QUANT>::superblock_bytes(task.block.get());
    let levels = Levels::new::<QUANT>(task.tables, Neon::<P>::OFFSET);
    for p in 0..task.panels {
        // SAFETY: the task has the panels and the tokens, and the output room for all of them.
        unsafe {
            let panel = task.weights.as_ptr().add(p * panel_bytes);
            let out = PanelOut { start: out.start.add(PANEL_ROWS * p), ..out };
            for first in task.tokens.clone().step_by(TOKENS) {
                let count = TOKENS.min(task.tokens.end - first);
                tokens::<P, S, QUANT>(task, &levels, panel, first, count, out);
            }
        }
    }
}

/// One panel against `count` tokens, at least one, from `first` on, into `out`, which starts at the panel's rows of token 0.
///
/// # Safety
/// As for [`matmul`]; `panel` must point to a panel of the task, and the tokens exist.
#[inline(always)]
unsafe fn tokens<P: Products, S: TileProducts, const QUANT: u8>(
    task: &PanelTask<'_>,
    levels: &Levels,
    panel: *const u8,
    first: usize,
    count: usize,
    out: PanelOut,
) {
    let n = task.block.get();
    // SAFETY: as for the panel product of one token. The accumulators are a multiple of a tile.
    unsafe {
        let zero = Neon::<P>::splat(0.0);
        let mut acc = [Acc { a: zero, b: zero }; TOKENS];
        // Constants as such: what is not for this type is then not even compiled.
        let head = if Form::<QUANT>::IS_LEARNED { Some(Head::new::<QUANT>(levels)) } else { None };
        for j in 0..task.blocks {
            let block = panel.add(Form::<QUANT>::HEAD_BYTES + j * Form::<QUANT>::superblock_bytes(n));
            if Form::<QUANT>::IS_LEARNED {
                let Some(head) = &head else { continue };
                let head: &Head<Neon<P>> = head;
                let quads = head.codes::<QUANT>(block, j);
                let codes = each!(pair => S::arrange([quads[2 * pair], quads[2 * pair + 1]]));
                let ab = &learned::scales::<Neon<P>, QUANT>(block);
                let group = Group { task, codes: &codes, ab, index: j, first, count };
                group.tiles::<P, S, QUANT>(&mut acc);
                continue;
            }
            let ab = &scales::<Neon<P>, QUANT>(block);
            let words = block.add(Form::<QUANT>::CODES_OFFSET);
            for g in 0..n / ACT_BLOCK {
                let codes = each!(pair => {
                    let at = (ACT_BLOCK / 4) * g + 2 * pair;
                    S::arrange([
                        quad::<Neon<P>, QUANT>(words, n, at),
                        quad::<Neon<P>, QUANT>(words, n, at + 1),
                    ])
                });
                let index = j * (n / ACT_BLOCK) + g;
                let group = Group { task, codes: &codes, ab, index, first, count };
                group.tiles::<P, S, QUANT>(&mut acc);
            }
        }
        for (t, acc) in acc[..count].iter().enumerate() {
            let sum = learned::result::<Neon<P>, QUANT>(levels, panel, acc.a, acc.b);
            Neon::<P>::store(sum, out.start.add((first + t) * out.stride));
        }
    }
}

/// A group of a panel, for the tokens at work.
struct Group<'a> {
    task: &'a PanelTask<'a>,
    codes: &'a [[Codes; 2]; PAIRS],
    ab: &'a (Floats, Floats),
    /// Which of the groups of a row.
    index: usize,
    first: usize,
    count: usize,
}

impl Group<'_> {
    /// Adds the products with all tokens at work.
    ///
    /// # Safety
    /// As for [`matmul`].
    #[inline(always)]
    unsafe fn tiles<P: Products, S: TileProducts, const QUANT: u8>(&self, acc: &mut [Acc; TOKENS]) {
        let mut t = 0;
        while t < self.count {
            // SAFETY: the count is at most the tokens of the accumulators, which are a multiple of a tile.
            unsafe {
                let acc = acc.as_mut_ptr().add(t);
                if S::TILE == 4 && t + 2 < self.count {
                    self.tile::<P, S, QUANT, 4>(t, acc);
                    t += 4;
                } else {
                    self.tile::<P, S, QUANT, 2>(t, acc);
                    t += 2;
                }
            }
        }
    }

    /// Adds the products with `T` tokens from the `t`-th on.
    ///
    /// # Safety
    /// As for [`matmul`]; `t` must be below the count, and `acc` have room for `T`.
    #[inline(always)]
    unsafe fn tile<P: Products, S: TileProducts, const QUANT: u8, const T: usize>(
        &self,
        t: usize,
        acc: *mut Acc,
    ) {
        let input = self.task.input;
        // Past the end the last token is computed again, into an accumulator that nobody reads.
        let mut tokens = [0; T];
        let mut x = [input.codes().as_ptr(); T];
        // SAFETY: the caller's promises.
        unsafe {
            for i in 0..T {
                tokens[i] = self.first + (t + i).min(self.count - 1);
                x[i] = x[i].add(tokens[i] * input.stride() + self.index * ACT_BLOCK);
            }
            let mut sums = S::sums::<QUANT, T>(self.codes, x);
            let (a, b) = self.ab;
            for i in 0..T {
                let at = self.index * input.rows() + tokens[i];
                let (dx, sx) = (*input.scales().as_ptr().add(at), *input.sums().as_ptr().add(at));
                if Form::<QUANT>::IS_SIGNED
                    && let Some(divisor) =
                        const { Form::<QUANT>::start_divisor(<Neon<P> as PanelIsa>::OFFSET) }
                {
                    let start = *input.starts().as_ptr().add(at) / divisor;
                    sums[i] = Neon::<P>::add_ints(sums[i], Neon::<P>::splat_ints(start));
                }
                let acc = &mut *acc.add(i);
                acc.a = each!(r => vfmaq_f32(acc.a[r], vmulq_n_f32(a[r], dx), vcvtq_f32_s32(sums[i][r])));
                if Form::<QUANT>::HAS_OFFSET {
                    acc.b = each!(r => vfmaq_n_f32(acc.b[r], b[r], sx));
                }
            }
        }
    }
}
