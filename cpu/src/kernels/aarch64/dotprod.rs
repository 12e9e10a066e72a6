//! Sums of products with the dot product instructions of Armv8.2: four products in each lane.

use core::arch::aarch64::*;
use core::arch::asm;

use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::product;

use super::batch::{self, TileProducts};
use super::panel_isa::{Codes, Ints, Neon, Products};

/// `sdot`: codes of up to 15 are signed bytes as well.
pub(super) struct Sdot;

// SAFETY of all blocks: the traits' promises, which each function passes on.
impl Products for Sdot {
    type Dots = Ints;

    #[inline(always)]
    unsafe fn no_dots() -> Ints {
        // SAFETY: as above.
        unsafe { [vdupq_n_s32(0); 4] }
    }

    #[inline(always)]
    unsafe fn dot(dots: Ints, codes: Codes, x: *const i8) -> Ints {
        // SAFETY: as above.
        unsafe {
            // As a float the four codes are loaded into the lowest lane, and no instruction copies them to the others.
            let x = x.cast::<f32>().read_unaligned();
            each!(i => {
                let mut sum = dots[i];
                // The intrinsic is not stable.
                asm!(
                    "sdot {sum:v}.4s, {codes:v}.16b, {x:v}.4b[0]",
                    sum = inout(vreg) sum,
                    codes = in(vreg) codes[i],
                    x = in(vreg) x,
                    options(pure, nomem, nostack, preserves_flags)
                );
                sum
            })
        }
    }

    #[inline(always)]
    unsafe fn ints(dots: Ints) -> Ints {
        dots
    }

    #[inline(always)]
    unsafe fn dot_signed(ints: Ints, codes: Codes, x: *const i8) -> Ints {
        // SAFETY: as above.
        unsafe { Self::dot(ints, codes, x) }
    }
}

impl TileProducts for Sdot {
    const TILE: usize = 4;

    #[inline(always)]
    unsafe fn arrange(columns: [Codes; 2]) -> [Codes; 2] {
        columns
    }

    #[inline(always)]
    unsafe fn sums<const QUANT: u8, const T: usize>(codes: &[[Codes; 2]; 4], x: [*const i8; T]) -> [Ints; T] {
        // SAFETY: as above.
        unsafe {
            let mut sums = [[vdupq_n_s32(0); 4]; T];
            let [[a, b], [c, d], [e, f], [g, h]] = codes;
            for (half, [a, b, c, d]) in [[a, b, c, d], [e, f, g, h]].into_iter().enumerate() {
                let mut v = [vdupq_n_s8(0); T];
                for t in 0..T {
                    v[t] = vld1q_s8(x[t].add(16 * half));
                }
                add::<0, T>(&mut sums, a, v);
                add::<1, T>(&mut sums, b, v);
                add::<2, T>(&mut sums, c, v);
                add::<3, T>(&mut sums, d, v);
            }
            sums
        }
    }
}

/// Adds the products with the four columns of a lane of `x`.
///
/// # Safety
/// The processor must have dotprod.
#[inline(always)]
unsafe fn add<const LANE: i32, const T: usize>(sums: &mut [Ints; T], codes: &Codes, x: [int8x16_t; T]) {
    for t in 0..T {
        for i in 0..4 {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    "sdot {sum:v}.4s, {codes:v}.16b, {x:v}.4b[{lane}]",
                    sum = inout(vreg) sums[t][i],
                    codes = in(vreg) codes[i],
                    x = in(vreg) x[t],
                    lane = const LANE,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
        }
    }
}

/// The panel product for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn); the processor must have dotprod.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe {
        if task.tokens.len() == 1 {
            product::matmul::<Neon<Sdot>, QUANT>(task, out);
        } else {
            batch::matmul::<Sdot, Sdot, QUANT>(task, out);
        }
    }
}
