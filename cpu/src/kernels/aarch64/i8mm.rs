//! Sums of products with the matrix instructions of Armv8.6: two rows times two tokens, eight products in each lane.

use core::arch::aarch64::*;
use core::arch::asm;

use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::product;

use super::batch::{self, TileProducts};
use super::dotprod::Sdot;
use super::panel_isa::{Codes, Ints, Neon};

/// `smmla`. A single token would leave half of it idle: that is for [`Sdot`].
struct Smmla;

// SAFETY of all blocks: the trait's promises, which each function passes on.
impl TileProducts for Smmla {
    const TILE: usize = 4;

    /// Of four rows, those below 2 in the first register and the others in the second: eight columns each.
    #[inline(always)]
    unsafe fn arrange([first, second]: [Codes; 2]) -> [Codes; 2] {
        // SAFETY: as above.
        unsafe {
            let [[a, b], [c, d], [e, f], [g, h]] = each!(i => {
                let (first, second) = (vreinterpretq_u32_u8(first[i]), vreinterpretq_u32_u8(second[i]));
                [vzip1q_u32(first, second), vzip2q_u32(first, second)]
            });
            let [a, b, c, d] = [a, b, c, d].map(|v| vreinterpretq_u8_u32(v));
            let [e, f, g, h] = [e, f, g, h].map(|v| vreinterpretq_u8_u32(v));
            [[a, b, c, d], [e, f, g, h]]
        }
    }

    #[inline(always)]
    unsafe fn sums<const QUANT: u8, const T: usize>(codes: &[[Codes; 2]; 4], x: [*const i8; T]) -> [Ints; T] {
        // SAFETY: as above.
        unsafe {
            // Of every two tokens t and t + 1 and all rows 2i and 2i + 1: both tokens of the first row, both of the second.
            let mut squares = [[vdupq_n_s32(0); 4]; T];
            for half in 0..2 {
                for t in (0..T).step_by(2) {
                    let first = vreinterpretq_s64_s8(vld1q_s8(x[t].add(16 * half)));
                    let second = vreinterpretq_s64_s8(vld1q_s8(x[t + 1].add(16 * half)));
                    add(&mut squares, t, &codes[2 * half], vzip1q_s64(first, second));
                    add(&mut squares, t, &codes[2 * half + 1], vzip2q_s64(first, second));
                }
            }
            let mut sums = squares;
            for t in (0..T).step_by(2) {
                for i in 0..4 {
                    let at = t + i / 2;
                    let (low, high) = (squares[at][2 * (i % 2)], squares[at][2 * (i % 2) + 1]);
                    sums[t][i] = vuzp1q_s32(low, high);
                    sums[t + 1][i] = vuzp2q_s32(low, high);
                }
            }
            sums
        }
    }
}

/// Adds the products of eight columns of all rows with those of the tokens t and t + 1.
///
/// # Safety
/// The processor must have i8mm.
#[inline(always)]
unsafe fn add<const T: usize>(squares: &mut [Ints; T], t: usize, codes: &[Codes; 2], x: int64x2_t) {
    for i in 0..8 {
        // SAFETY: the caller's promise.
        unsafe {
            // The intrinsic is not stable.
            asm!(
                "smmla {sum:v}.4s, {codes:v}.16b, {x:v}.16b",
                sum = inout(vreg) squares[t + i / 4][i % 4],
                codes = in(vreg) codes[i / 4][i % 4],
                x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }
}

/// The panel product for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); the processor must have dotprod and i8mm.
#[target_feature(enable = "neon,dotprod,i8mm")]
pub(super) unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe {
        if task.tokens.len() == 1 {
            product::matmul::<Neon<Sdot>, QUANT>(task, out);
        } else {
            batch::matmul::<Sdot, Smmla, QUANT>(task, out);
        }
    }
}
