//! Panels with vectors of 128 bits: four registers for each value of [`PanelIsa`].

use core::arch::wasm32::*;

use crate::float16::f16_to_f32;
use crate::fused::fused;
use crate::kernels::panel::{PanelOut, PanelTask};
use crate::kernels::product;
use crate::kernels::unpack::{Ahead, PanelIsa};
use crate::vector::CacheLevel;

/// Rows 0 to 3, 4 to 7, 8 to 11, 12 to 15.
type Four = [v128; 4];

struct Simd128;

// SAFETY of all blocks: the trait's promises, which each function passes on.
impl PanelIsa for Simd128 {
    type Codes = Four;
    /// Of each register of codes the first two rows and the others: 32-bit sums of the products of columns 0 and 1, and of 2 and 3.
    type Dots = [[v128; 2]; 4];
    type Ints = Four;
    type Floats = Four;

    const OFFSET: u8 = 0;

    fn ahead() -> Ahead {
        Ahead { bytes: 0, level: CacheLevel::First }
    }

    /// There is no such instruction.
    #[inline(always)]
    unsafe fn fetch(_address: *const u8, _bytes: usize, _level: CacheLevel) {}

    #[inline(always)]
    unsafe fn load(codes: *const u8) -> Four {
        // SAFETY: as above.
        unsafe { each!(i => v128_load(codes.add(16 * i).cast())) }
    }

    #[inline(always)]
    unsafe fn shift_right(codes: Four, bits: usize) -> Four {
        each!(i => u16x8_shr(codes[i], bits as u32))
    }

    #[inline(always)]
    unsafe fn shift_left(codes: Four, bits: usize) -> Four {
        each!(i => i16x8_shl(codes[i], bits as u32))
    }

    #[inline(always)]
    unsafe fn and(codes: Four, mask: u8) -> Four {
        each!(i => v128_and(codes[i], u8x16_splat(mask)))
    }

    #[inline(always)]
    unsafe fn or(a: Four, b: Four) -> Four {
        each!(i => v128_or(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn xor(a: Four, b: Four) -> Four {
        each!(i => v128_xor(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn add_codes(a: Four, b: Four) -> Four {
        each!(i => i8x16_add(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn splat_codes(code: u8) -> Four {
        [u8x16_splat(code); 4]
    }

    #[inline(always)]
    unsafe fn carry(codes: Four, before: Four) -> Four {
        each!(i => v128_or(i32x4_shl(codes[i], 8), u32x4_shr(before[i], 24)))
    }

    #[inline(always)]
    unsafe fn table(entries: &[u8; 16]) -> Four {
        // SAFETY: there are sixteen.
        unsafe { [v128_load(entries.as_ptr().cast()); 4] }
    }

    #[inline(always)]
    unsafe fn lookup(table: Four, codes: Four) -> Four {
        each!(i => u8x16_swizzle(table[i], codes[i]))
    }

    #[inline(always)]
    unsafe fn choose(plane: Four, bit: usize, clear: Four, set: Four) -> Four {
        let bit = u8x16_splat(1 << bit);
        each!(i => v128_bitselect(set[i], clear[i], u8x16_eq(v128_and(plane[i], bit), bit)))
    }

    #[inline(always)]
    unsafe fn no_dots() -> Self::Dots {
        [[i32x4_splat(0); 2]; 4]
    }

    #[inline(always)]
    unsafe fn dot(dots: Self::Dots, codes: Four, x: *const i8) -> Self::Dots {
        // SAFETY: as above.
        let x = unsafe { columns(x) };
        each!(i => [
            i32x4_add(dots[i][0], i32x4_dot_i16x8(u16x8_extend_low_u8x16(codes[i]), x)),
            i32x4_add(dots[i][1], i32x4_dot_i16x8(u16x8_extend_high_u8x16(codes[i]), x)),
        ])
    }

    #[inline(always)]
    unsafe fn ints(dots: Self::Dots) -> Four {
        each!(i => pairs(dots[i]))
    }

    #[inline(always)]
    unsafe fn no_ints() -> Four {
        [i32x4_splat(0); 4]
    }

    #[inline(always)]
    unsafe fn dot_signed(ints: Four, codes: Four, x: *const i8) -> Four {
        // SAFETY: as above.
        let x = unsafe { columns(x) };
        each!(i => i32x4_add(ints[i], pairs([
            i32x4_dot_i16x8(i16x8_extend_low_i8x16(codes[i]), x),
            i32x4_dot_i16x8(i16x8_extend_high_i8x16(codes[i]), x),
        ])))
    }

    #[inline(always)]
    unsafe fn add_ints(a: Four, b: Four) -> Four {
        each!(i => i32x4_add(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn splat_ints(value: i32) -> Four {
        [i32x4_splat(value); 4]
    }

    #[inline(always)]
    unsafe fn bytes(bytes: *const u8) -> Four {
        // SAFETY: as above.
        let bytes = unsafe { v128_load(bytes.cast()) };
        let (low, high) = (i16x8_extend_low_i8x16(bytes), i16x8_extend_high_i8x16(bytes));
        [
            i32x4_extend_low_i16x8(low),
            i32x4_extend_high_i16x8(low),
            i32x4_extend_low_i16x8(high),
            i32x4_extend_high_i16x8(high),
        ]
    }

    #[inline(always)]
    unsafe fn even(ints: Four) -> Four {
        each!(i => v128_and(ints[i], i32x4_splat(!1)))
    }

    #[inline(always)]
    unsafe fn where_odd(ints: Four, floats: Four) -> Four {
        each!(i => v128_and(floats[i], i32x4_shr(i32x4_shl(ints[i], 31), 31)))
    }

    #[inline(always)]
    unsafe fn halves(halves: *const u8) -> Four {
        let mut values = [0.0; 16];
        for (i, value) in values.iter_mut().enumerate() {
            // SAFETY: as above.
            *value = f16_to_f32(unsafe { halves.add(2 * i).cast::<u16>().read_unaligned() });
        }
        // SAFETY: there are sixteen.
        unsafe { each!(i => v128_load(values.as_ptr().add(4 * i).cast())) }
    }

    #[inline(always)]
    unsafe fn floats(ints: Four) -> Four {
        each!(i => f32x4_convert_i32x4(ints[i]))
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Four {
        [f32x4_splat(value); 4]
    }

    #[inline(always)]
    unsafe fn add(a: Four, b: Four) -> Four {
        each!(i => f32x4_add(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn mul(a: Four, b: Four) -> Four {
        each!(i => f32x4_mul(a[i], b[i]))
    }

    #[inline(always)]
    unsafe fn fma(a: Four, b: Four, c: Four) -> Four {
        fused(a, b, c)
    }

    #[inline(always)]
    unsafe fn store(floats: Four, out: *mut f32) {
        for (i, four) in floats.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { v128_store(out.add(4 * i).cast(), four) }
        }
    }
}

/// The four codes at `x`, twice, as 16-bit numbers.
///
/// # Safety
/// They must be there.
#[inline(always)]
unsafe fn columns(x: *const i8) -> v128 {
    // SAFETY: the caller's promise.
    i16x8_extend_low_i8x16(i32x4_splat(unsafe { x.cast::<i32>().read_unaligned() }))
}

/// Sums of neighbours: of two registers with two sums of each row, one with one.
#[inline(always)]
fn pairs([low, high]: [v128; 2]) -> v128 {
    i32x4_add(i32x4_shuffle::<0, 2, 4, 6>(low, high), i32x4_shuffle::<1, 3, 5, 7>(low, high))
}

/// The panel product for the type with the id `QUANT`.
///
/// # Safety
/// As for [`PanelFn`](crate::kernels::panel::PanelFn).
pub(super) unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    // SAFETY: the caller's promises.
    unsafe { product::matmul::<Simd128, QUANT>(task, out) }
}
