//! Elementary functions and softmax. None comes from the system's library, whose results differ from machine to machine.
//!
//! Errors are stated in ulp, units in the last place of the exact result; the tests hold them.

use super::isa::{Isa, Vectorized};
use super::lanes::{LANES, Lanes, sum};
use super::power_of_two::{ROUNDER, integer, power_of_two, times_power_of_two};
use super::vector::Vector;

/// ln 2 as a sum of two floats.
const LN_2_HIGH: f32 = std::f32::consts::LN_2;
const LN_2_LOW: f32 = (std::f64::consts::LN_2 - std::f32::consts::LN_2 as f64) as f32;

/// n and `e^r - 1` with `x = n ln 2 + r`, `|r| <= ln 2 / 2`. x must be within +-200 or NaN.
#[inline(always)]
fn reduced(x: f32) -> (f32, f32) {
    let n = x.mul_add(std::f32::consts::LOG2_E, ROUNDER) - ROUNDER;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let mut p = EXP_SERIES[0];
    for c in &EXP_SERIES[1..] {
        p = r.mul_add(p, *c);
    }
    (n, (r * r).mul_add(p, r))
}

/// The Taylor series from r^7 to r^2: what is left out is below 6e-9 of the result.
const EXP_SERIES: [f32; 6] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];

/// `e^x` within 2 ulp: infinity above 88.73, 0 below -104, NaN for NaN. Subnormal results are within one step.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // NaN fails both comparisons and passes.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let (n, p) = reduced(x);
    times_power_of_two(1.0 + p, n)
}

/// `e^x - 1` for x up to 0, without cancellation.
#[inline(always)]
pub(super) fn exp_minus_one_below(x: f32) -> f32 {
    // From -17.4 on the nearest float is -1. NaN passes.
    let x = if x < -80.0 { -80.0 } else { x };
    let (n, p) = reduced(x);
    let power = power_of_two(integer(n));
    power.mul_add(p, power - 1.0)
}

/// [`exp`] of 16 numbers, none above 89.
#[inline(always)]
pub(super) fn exp_of_small<V: Vector>(x: V) -> V {
    let x = x.or_larger(V::splat(-105.0));
    // What is 0 in the end is made 0 before it is scaled: Intel's processors take over 100 cycles for a product that underflows, and
    // each query has positions that it does not see. Not NaN.
    let none = V::splat(-104.0).larger(x);
    let rounder = V::splat(ROUNDER);
    let n = rounder.fma(x, V::splat(std::f32::consts::LOG2_E)).sub(rounder);
    let r = x.fma(n, V::splat(-LN_2_HIGH)).fma(n, V::splat(-LN_2_LOW));
    let mut p = V::splat(EXP_SERIES[0]);
    for c in &EXP_SERIES[1..] {
        p = V::splat(*c).fma(r, p);
    }
    let power = V::splat(1.0).add(r.fma(r.mul(r), p));
    V::choose(none, V::splat(0.0), power).times_power_of_two(n)
}

/// `e^x` from x^4 down, for x within half of ln 2: the polynomial of the least largest error, 2.6e-6 of the result.
const SHORT_SERIES: [f32; 5] = [0.041_458_608, 0.167_909_07, 0.500_043_6, 0.999_963_4, 0.999_999_3];

/// `e^x` of 16 numbers, none above 0, within 3e-6 of it, and for all below -44 within 1e-19: in half of the instructions of
/// [`exp_of_small`]. NaN for NaN.
#[inline(always)]
pub(super) fn short_exp_of_small<V: Vector>(x: V) -> V {
    let x = x.or_larger(V::splat(-44.0));
    let rounder = V::splat(ROUNDER);
    let n = rounder.fma(x, V::splat(std::f32::consts::LOG2_E)).sub(rounder);
    // So few n that the rest of ln 2 does not matter.
    let r = x.fma(n, V::splat(-LN_2_HIGH));
    let mut p = V::splat(SHORT_SERIES[0]);
    for c in &SHORT_SERIES[1..] {
        p = V::splat(*c).fma(r, p);
    }
    p.times_power_of_two(n)
}

/// `tanh x` within 4 ulp.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    // From 9.02 on the nearest float is 1. NaN passes.
    let a = x.abs();
    let a = if a > 10.0 { 10.0 } else { a };
    let (n, p) = reduced(2.0 * a);
    let power = power_of_two(integer(n));
    // e^2a - 1 without cancellation: exactly p where n is 0.
    let e = power.mul_add(p, power - 1.0);
    (e / (e + 2.0)).copysign(x)
}

/// `1 / (1 + e^-x)` within 4 ulp, for x above -87; below, 0 or a number under 2e-38.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `x * sigmoid(x)` within 4 ulp, for x above -87.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// [`silu`] of 16 numbers.
#[inline(always)]
pub(super) fn silu_of<V: Vector>(x: V) -> V {
    let minus = V::splat(0.0).sub(x);
    let minus = V::choose(minus.larger(V::splat(89.0)), V::splat(89.0), minus);
    x.div(V::splat(1.0).add(exp_of_small(minus)))
}

/// `ln(1 + e^x)` within 4 ulp.
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    // ln(1 + e^x) = max(x, 0) + ln(1 + u) with u = e^-|x|, which is 0 to 1. NaN passes through u.
    let u = exp(-x.abs());
    let above = if x > 0.0 { x } else { 0.0 };
    above + ln_1p(u)
}

/// `ln(1 + u)` for u from 0 to 1.
#[inline(always)]
fn ln_1p(u: f32) -> f32 {
    // 2 atanh(s) with s = u / (2 + u), which is at most 1/3: what the series leaves out is below 2e-9 of the result.
    const SERIES: [f32; 8] =
        [2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0];
    let s = u / (2.0 + u);
    let square = s * s;
    let mut p = SERIES[0];
    for c in &SERIES[1..] {
        p = square.mul_add(p, *c);
    }
    (s * square).mul_add(p, 2.0 * s)
}

/// GELU by its tanh approximation, `x / 2 * (1 + tanh u)` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`: within 4 ulp for
/// x above -1, and within `4 + 8 |u|` ulp below.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    // (1 + tanh u) / 2 = 1 / (1 + e^-2u), which does not cancel.
    const MINUS_2_ROOT: f32 = -1.595_769;
    let u = x * (x * x).mul_add(MINUS_2_ROOT * 0.044_715, MINUS_2_ROOT);
    x / (1.0 + exp(u))
}

/// GELU by the error function, `x / 2 * erfc(-x / sqrt 2)`: within 4 ulp for x above -1, and within `4 + 2 x^2` ulp below.
#[inline(always)]
pub fn gelu_erf(x: f32) -> f32 {
    // erfc(a / sqrt 2) / 2 = e^(-a^2 / 2) g(a), where g falls slowly. In s = a / (1 + 0.35 a) it is 1/2 + s times a
    // polynomial, fitted for the least largest error on 0..=14.5, which is 1e-8 (1 + a^2 / 4) relative.
    const SERIES: [f32; 9] = [
        1.785_273_6e-6,
        -2.115_548_5e-5,
        7.393_274e-5,
        -2.822_932_6e-5,
        1.672_796_4e-4,
        -2.431_393_1e-3,
        -6.826_014e-3,
        0.110_365_86,
        -0.398_942_02,
    ];
    // Behind, the exponential is 0. NaN passes.
    let a = x.abs();
    let a = if a > 14.5 { 14.5 } else { a };
    let square = a * a;
    let lost = a.mul_add(a, -square);
    let power = exp(-0.5 * square);
    let power = power.mul_add(-0.5 * lost, power);
    let s = a / a.mul_add(0.35, 1.0);
    let mut p = SERIES[0];
    for c in &SERIES[1..] {
        p = s.mul_add(p, *c);
    }
    let below = s.mul_add(p, 0.5) * power;
    x * if x < 0.0 { below } else { 1.0 - below }
}

/// Largest value; NaNs are passed over. Minus infinity when there is none.
#[inline(always)]
fn maximum(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut top = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (top, v) in top.iter_mut().zip(chunk) {
            *top = larger(*top, *v);
        }
    }
    top.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, larger)
}

/// Replaces `values` by `e^v / sum e^v`. A NaN or plus infinity among them, or minus infinity alone, makes all NaN.
pub fn softmax_in_place(isa: Isa, values: &mut [f32]) {
    isa.vectorize(Softmax { values });
}

struct Softmax<'a> {
    values: &'a mut [f32],
}

impl Vectorized for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        softmax(self.values);
    }
}

/// [`softmax_in_place`] inside other vectorized work.
#[inline(always)]
pub(super) fn softmax(values: &mut [f32]) {
    let top = maximum(values);
    let mut acc: Lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for (acc, v) in acc.iter_mut().zip(chunk) {
            *v = exp(*v - top);
            *acc += *v;
        }
    }
    for (acc, v) in acc.iter_mut().zip(rest) {
        *v = exp(*v - top);
        *acc += *v;
    }
    let total = sum(acc);
    for v in values {
        *v /= total;
    }
}

/// `ln sum e^v` with the sum and the logarithm in f64: within 1e-6 absolute for values that are within 16 of the largest
/// where they matter. Minus infinity for no values.
pub fn log_sum_exp(isa: Isa, values: &[f32]) -> f64 {
    let (top, total) = isa.vectorize(SumExp { values });
    if total == 0.0 || top == f32::NEG_INFINITY {
        f64::NEG_INFINITY
    } else {
        f64::from(top) + libm::log(total)
    }
}

struct SumExp<'a> {
    values: &'a [f32],
}

impl Vectorized for SumExp<'_> {
    type Output = (f32, f64);

    #[inline(always)]
    fn run(self) -> (f32, f64) {
        let top = maximum(self.values);
        let mut acc = [0.0f64; LANES];
        let (chunks, rest) = self.values.as_chunks::<LANES>();
        for chunk in chunks {
            for (acc, v) in acc.iter_mut().zip(chunk) {
                *acc += f64::from(exp(*v - top));
            }
        }
        for (acc, v) in acc.iter_mut().zip(rest) {
            *acc += f64::from(exp(*v - top));
        }
        // In lane order: a plain fold, the same everywhere.
        (top, acc.iter().sum())
    }
}

#[cfg(test)]
mod tests;
