//! Four registers of four lanes, of WebAssembly.

use core::arch::wasm32::*;

use super::operations::{Vector, VectorWork};
use crate::float16::f16_to_f32;
use crate::fused::fused;
use crate::lanes::{LANES, Lanes};

/// Lanes 0 to 3, 4 to 7, 8 to 11, 12 to 15.
#[derive(Clone, Copy)]
pub(super) struct Four([v128; 4]);

/// Four registers, number `$i` by `$value`.
macro_rules! each {
    ($i:ident => $value:expr) => { each!($i, 0 1 2 3, $value) };
    ($i:ident, $($at:literal)*, $value:expr) => { [$({ let $i = $at; $value }),*] };
}

impl Vector for Four {
    const MANY: bool = false;
    /// All bits of a lane, or none.
    type Mask = [v128; 4];
    type Wholes = [v128; 4];
    type Pairs = [v128; 4];

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Four([f32x4_splat(value); 4])
    }

    #[inline(always)]
    fn from_lanes(lanes: &Lanes) -> Self {
        // SAFETY: all loads are inside the array.
        Four(unsafe { each!(i => v128_load(lanes.as_ptr().add(4 * i).cast())) })
    }

    #[inline(always)]
    fn from_halves(halves: &[u16; 16]) -> Self {
        let mut lanes = [0.0; LANES];
        for (lane, half) in lanes.iter_mut().zip(halves) {
            *lane = f16_to_f32(*half);
        }
        Self::from_lanes(&lanes)
    }

    #[inline(always)]
    fn from_codes(bytes: &[u8; 16], shift: u32, mask: u8) -> Self {
        // SAFETY: the load is the array.
        let bytes = unsafe { v128_load(bytes.as_ptr().cast()) };
        let codes = v128_and(u16x8_shr(bytes, shift), u8x16_splat(mask));
        let (low, high) = (u16x8_extend_low_u8x16(codes), u16x8_extend_high_u8x16(codes));
        Four([
            f32x4_convert_u32x4(u32x4_extend_low_u16x8(low)),
            f32x4_convert_u32x4(u32x4_extend_high_u16x8(low)),
            f32x4_convert_u32x4(u32x4_extend_low_u16x8(high)),
            f32x4_convert_u32x4(u32x4_extend_high_u16x8(high)),
        ])
    }

    #[inline(always)]
    fn pairs_from_bytes(bytes: &[u8; 64]) -> [[v128; 4]; 2] {
        // SAFETY: the loads are inside the array.
        let quads = unsafe { each!(i => v128_load(bytes.as_ptr().add(16 * i).cast())) };
        [each!(i => i16x8_shr(i16x8_shl(quads[i], 8), 8)), each!(i => i16x8_shr(quads[i], 8))]
    }

    #[inline(always)]
    fn pairs_from_codes(bytes: &[u8; 16], shift: u32, bits: u32) -> [v128; 4] {
        // SAFETY: the load is the array.
        let bytes = unsafe { v128_load(bytes.as_ptr().cast()) };
        let top = u8x16_splat((1 << bits) - 1);
        let first = v128_and(u8x16_shr(bytes, shift), top);
        let second = v128_and(u8x16_shr(bytes, shift + bits), top);
        let low = u8x16_shuffle::<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(first, second);
        let high =
            u8x16_shuffle::<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(first, second);
        [
            u16x8_extend_low_u8x16(low),
            u16x8_extend_high_u8x16(low),
            u16x8_extend_low_u8x16(high),
            u16x8_extend_high_u8x16(high),
        ]
    }

    #[inline(always)]
    fn splat_pair(pair: i32) -> [v128; 4] {
        [i32x4_splat(pair); 4]
    }

    #[inline(always)]
    fn splat_whole(value: i32) -> [v128; 4] {
        [i32x4_splat(value); 4]
    }

    #[inline(always)]
    fn add_pair_products(sum: [v128; 4], a: [v128; 4], b: [v128; 4]) -> [v128; 4] {
        each!(i => i32x4_add(sum[i], i32x4_dot_i16x8(a[i], b[i])))
    }

    #[inline(always)]
    fn wholes(lanes: &[i32; 16]) -> [v128; 4] {
        // SAFETY: the loads are inside the array.
        unsafe { each!(i => v128_load(lanes.as_ptr().add(4 * i).cast())) }
    }

    #[inline(always)]
    fn wholes_of_bytes(low: &[i32; 16], high: &[i32; 16]) -> [v128; 4] {
        // SAFETY: the loads are inside the arrays.
        unsafe {
            each!(i => {
                let (low, high) = (v128_load(low.as_ptr().add(4 * i).cast()), v128_load(high.as_ptr().add(4 * i).cast()));
                i32x4_add(low, i32x4_shl(high, 8))
            })
        }
    }

    #[inline(always)]
    fn from_wholes(wholes: [v128; 4]) -> Self {
        Four(each!(i => f32x4_convert_i32x4(wholes[i])))
    }

    #[inline(always)]
    fn to_lanes(self) -> Lanes {
        let mut lanes = [0.0; LANES];
        for (i, four) in self.0.into_iter().enumerate() {
            // SAFETY: all stores are inside the array.
            unsafe { v128_store(lanes.as_mut_ptr().add(4 * i).cast(), four) }
        }
        lanes
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Four(each!(i => f32x4_add(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Four(each!(i => f32x4_sub(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Four(each!(i => f32x4_mul(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Four(each!(i => f32x4_div(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self::Mask {
        each!(i => f32x4_gt(self.0[i], other.0[i]))
    }

    #[inline(always)]
    fn bits(mask: Self::Mask) -> u32 {
        (0..4).map(|part| u32::from(i32x4_bitmask(mask[part])) << (4 * part)).sum()
    }

    #[inline(always)]
    fn choose(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Four(each!(i => v128_bitselect(yes.0[i], no.0[i], mask[i])))
    }

    #[inline(always)]
    fn or_larger(self, other: Self) -> Self {
        // The first unless it is smaller.
        Four(each!(i => f32x4_pmax(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn or_smaller(self, other: Self) -> Self {
        // The first unless it is larger.
        Four(each!(i => f32x4_pmin(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn times_power_of_two(self, n: Self) -> Self {
        // As `power_of_two` says.
        Four(each!(i => {
            let (n, bias) = (i32x4_trunc_sat_f32x4(n.0[i]), i32x4_splat(127));
            let half = i32x4_shr(n, 1);
            let first = i32x4_shl(i32x4_add(half, bias), 23);
            let second = i32x4_shl(i32x4_add(i32x4_sub(n, half), bias), 23);
            f32x4_mul(f32x4_mul(self.0[i], first), second)
        }))
    }

    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        Four(fused(a.0, b.0, self.0))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        let v4 = f32x4_add(f32x4_add(self.0[0], self.0[2]), f32x4_add(self.0[1], self.0[3]));
        let v2 = f32x4_add(v4, i64x2_shuffle::<1, 1>(v4, v4));
        f32x4_extract_lane::<0>(v2) + f32x4_extract_lane::<1>(v2)
    }

    #[inline(never)]
    fn apart(work: impl VectorWork) {
        work.run::<Four>();
    }
}
