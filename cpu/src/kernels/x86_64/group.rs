//! A group of a panel, unpacked for the tile unit.

use core::arch::x86_64::*;

use super::avx512::Avx512;
use crate::activations::ACT_BLOCK;
use crate::kernels::form::Form;
use crate::kernels::learned::{self, Head, Levels};
use crate::kernels::unpack::{PanelIsa, quad, scales};

/// Quads of a group.
pub(super) const QUADS: usize = ACT_BLOCK / 4;

/// The logarithm of the groups of a block of `n` values: they are powers of two, and dividing takes longer than unpacking a group.
#[inline(always)]
fn shift(n: usize) -> u32 {
    (n / ACT_BLOCK).trailing_zeros()
}

/// Codes of 32 columns as bytes, signed or unsigned as the type is, scale a and offset b per row, of learned types in the units of
/// [`learned::result`]. Types without offsets have anything in `b`.
pub(super) struct Group {
    pub(super) codes: [__m512i; QUADS],
    pub(super) a: __m512,
    pub(super) b: __m512,
}

impl Group {
    /// Group `group` of a panel whose blocks have `n` values, with the levels of the type as they are, where it has any.
    ///
    /// # Safety
    /// `panel` must point to a panel of the type with the id `QUANT` that has the group, in blocks of this size. To be called from a
    /// function compiled with the instructions of [`Avx512`].
    #[inline(always)]
    pub(super) unsafe fn unpack<const QUANT: u8>(
        levels: &Levels,
        panel: *const u8,
        n: usize,
        group: usize,
    ) -> Group {
        // SAFETY: the caller's promises.
        unsafe {
            if Form::<QUANT>::IS_LEARNED {
                return Group::learned::<QUANT>(levels, panel, group);
            }
            // The default is compiled with all shifts known.
            match (n, group % 2) {
                (64, 0) => Group::linear::<QUANT>(panel, 64, group / 2, 0),
                (64, _) => Group::linear::<QUANT>(panel, 64, group / 2, 1),
                _ => Group::linear::<QUANT>(panel, n, group >> shift(n), group % (1 << shift(n))),
            }
        }
    }

    /// Group `g` of block `block` of a type that is not learned.
    ///
    /// # Safety
    /// As for [`Group::unpack`].
    #[inline(always)]
    unsafe fn linear<const QUANT: u8>(panel: *const u8, n: usize, block: usize, g: usize) -> Group {
        // SAFETY: the caller's promises.
        unsafe {
            let block = panel.add(block * Form::<QUANT>::superblock_bytes(n));
            let (a, b) = scales::<Avx512, QUANT>(block);
            let words = block.add(Form::<QUANT>::CODES_OFFSET);
            let mut codes = [_mm512_setzero_si512(); QUADS];
            for (i, codes) in codes.iter_mut().enumerate() {
                *codes = quad::<Avx512, QUANT>(words, n, QUADS * g + i);
            }
            Group { codes, a, b }
        }
    }

    /// Scale a and offset b alone, as [`Group::unpack`] gives them.
    ///
    /// # Safety
    /// As for [`Group::unpack`].
    #[inline(always)]
    pub(super) unsafe fn scales<const QUANT: u8>(
        panel: *const u8,
        n: usize,
        group: usize,
    ) -> (__m512, __m512) {
        // SAFETY: the caller's promises.
        unsafe {
            if Form::<QUANT>::IS_LEARNED {
                let block = panel.add(
                    Form::<QUANT>::HEAD_BYTES + group * const { Form::<QUANT>::superblock_bytes(ACT_BLOCK) },
                );
                return learned::scales::<Avx512, QUANT>(block);
            }
            scales::<Avx512, QUANT>(panel.add((group >> shift(n)) * Form::<QUANT>::superblock_bytes(n)))
        }
    }

    /// A group of a learned type: a block.
    ///
    /// # Safety
    /// As for [`Group::unpack`].
    #[inline(always)]
    unsafe fn learned<const QUANT: u8>(levels: &Levels, panel: *const u8, group: usize) -> Group {
        // SAFETY: the caller's promises.
        unsafe {
            let head = Head::<Avx512>::new::<QUANT>(levels);
            let block = panel.add(
                Form::<QUANT>::HEAD_BYTES + group * const { Form::<QUANT>::superblock_bytes(ACT_BLOCK) },
            );
            let (a, b) = learned::scales::<Avx512, QUANT>(block);
            let mut codes = head.codes::<QUANT>(block, group);
            if Form::<QUANT>::EVEN_OFFSET != 0 {
                // Tiles multiply signed codes as they are.
                for codes in &mut codes {
                    *codes = _mm512_sub_epi8(*codes, Avx512::splat_codes(Form::<QUANT>::EVEN_OFFSET));
                }
            }
            Group { codes, a, b }
        }
    }
}
