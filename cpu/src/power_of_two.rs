//! Numbers times powers of two, and rounding to integers, in plain arithmetic of floats.

/// 1.5 * 2^23: added to a number below 2^22 it rounds that to an integer in the low bits of the sum.
pub(super) const ROUNDER: f32 = 12_582_912.0;

/// 2^n for n in -126..=127.
#[inline(always)]
pub(super) fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `n` as an integer, where it is one within 2^22; of NaN some number.
#[inline(always)]
pub(super) fn integer(n: f32) -> i32 {
    (n + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits()) as i32
}

/// `x * 2^n`, rounded once, for x from 1/2 to 2 and integers n within +-200, or NaN.
#[inline(always)]
pub(super) fn times_power_of_two(x: f32, n: f32) -> f32 {
    // In two steps: the power may be out of range where the result is not. The first is exact.
    let n = integer(n);
    let half = n >> 1;
    x * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}
