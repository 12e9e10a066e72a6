//! Sums of products with what every processor of this architecture has: products of bytes in 16 bits.

use core::arch::aarch64::*;
use core::arch::asm;

use crate::kernels::form::Form;
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::product;

use super::batch::{self, TileProducts};
use super::panel_isa::{Codes, Ints, Neon, Products};

/// `smlal`.
struct Widening;

// SAFETY of all blocks: the traits' promises, which each function passes on.
impl Products for Widening {
    /// Of each register of codes the first two rows and the others. Eight products of at most 15 * 127 fit 16 bits, and so
    /// does the sum of two such sums.
    type Dots = [[int16x8_t; 2]; 4];

    #[inline(always)]
    unsafe fn no_dots() -> Self::Dots {
        // SAFETY: as above.
        unsafe { [[vdupq_n_s16(0); 2]; 4] }
    }

    #[inline(always)]
    unsafe fn dot(dots: Self::Dots, codes: Codes, x: *const i8) -> Self::Dots {
        // SAFETY: as above.
        unsafe {
            let x = columns(x);
            each!(i => {
                let (codes, [low, high]) = (opaque(vreinterpretq_s8_u8(codes[i])), dots[i]);
                [vmlal_s8(low, vget_low_s8(codes), vget_low_s8(x)), vmlal_high_s8(high, codes, x)]
            })
        }
    }

    #[inline(always)]
    unsafe fn ints(dots: Self::Dots) -> Ints {
        // SAFETY: as above.
        unsafe { each!(i => vpaddlq_s16(vpaddq_s16(dots[i][0], dots[i][1]))) }
    }

    #[inline(always)]
    unsafe fn dot_signed(ints: Ints, codes: Codes, x: *const i8) -> Ints {
        // SAFETY: as above.
        unsafe {
            let x = columns(x);
            each!(i => {
                let codes = vreinterpretq_s8_u8(codes[i]);
                let low = vmull_s8(vget_low_s8(codes), vget_low_s8(x));
                // Two products of at most 128 * 127 fit 16 bits.
                vpadalq_s16(ints[i], vpaddq_s16(low, vmull_high_s8(codes, x)))
            })
        }
    }
}

impl TileProducts for Widening {
    const TILE: usize = 2;

    #[inline(always)]
    unsafe fn arrange(columns: [Codes; 2]) -> [Codes; 2] {
        columns
    }

    #[inline(always)]
    unsafe fn sums<const QUANT: u8, const T: usize>(codes: &[[Codes; 2]; 4], x: [*const i8; T]) -> [Ints; T] {
        // SAFETY: as above.
        unsafe {
            let mut dots = [Self::no_dots(); T];
            let mut ints = [[vdupq_n_s32(0); 4]; T];
            for (i, codes) in codes.as_flattened().iter().enumerate() {
                for t in 0..T {
                    if Form::<QUANT>::IS_SIGNED {
                        ints[t] = Self::dot_signed(ints[t], *codes, x[t].add(4 * i));
                    } else {
                        dots[t] = Self::dot(dots[t], *codes, x[t].add(4 * i));
                    }
                }
            }
            if !Form::<QUANT>::IS_SIGNED {
                for t in 0..T {
                    ints[t] = Self::ints(dots[t]);
                }
            }
            ints
        }
    }
}

/// The four codes at `x`, four times.
///
/// # Safety
/// They must be there.
#[inline(always)]
unsafe fn columns(x: *const i8) -> int8x16_t {
    // SAFETY: the caller's promise.
    unsafe { opaque(vreinterpretq_s8_s32(vdupq_n_s32(x.cast::<i32>().read_unaligned()))) }
}

/// Bytes of which the compiler knows nothing. It would see that codes are small or that both halves of a register are the
/// same, and make more instructions of the products.
#[inline(always)]
fn opaque(mut bytes: int8x16_t) -> int8x16_t {
    // SAFETY: nothing is executed.
    unsafe { asm!("/* {:v} */", inout(vreg) bytes, options(pure, nomem, nostack, preserves_flags)) }
    bytes
}

/// The panel product for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn).
#[target_feature(enable = "neon")]
pub(super) unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe {
        if task.tokens.len() == 1 {
            product::matmul::<Neon<Widening>, QUANT>(task, out);
        } else {
            batch::matmul::<Widening, Widening, QUANT>(task, out);
        }
    }
}
