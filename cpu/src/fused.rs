//! `a * b + c` rounded once, in the vectors of WebAssembly, which has no instruction for it: a module that asks for a fused operation
//! gets a call of a function, for each lane.

use core::arch::wasm32::*;

/// `a * b + c` rounded once, in sixteen lanes.
///
/// The product is exact in f64, and the sum is rounded there. Rounding it again, to f32, gives what rounding once would, unless it
/// is half-way between two numbers of f32: then it matters what the first rounding took away. Below the normal numbers of f32
/// there are other places half-way.
#[inline(always)]
pub(crate) fn fused(a: [v128; 4], b: [v128; 4], c: [v128; 4]) -> [v128; 4] {
    let mut out = [f32x4_splat(0.0); 4];
    let mut doubtful = i64x2_splat(0);
    for i in 0..4 {
        let low = sum(a[i], b[i], c[i]);
        let high = sum(upper(a[i]), upper(b[i]), upper(c[i]));
        doubtful = v128_or(doubtful, v128_or(may_be_wrong(low), may_be_wrong(high)));
        out[i] = i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(low), f32x4_demote_f64x2_zero(high));
    }
    if v128_any_true(doubtful) { to_odd(&a, &b, &c) } else { out }
}

#[inline(always)]
fn upper(four: v128) -> v128 {
    i64x2_shuffle::<1, 1>(four, four)
}

/// `a * b + c` of the two low lanes, in f64.
#[inline(always)]
fn sum(a: v128, b: v128, c: v128) -> v128 {
    let product = f64x2_mul(f64x2_promote_low_f32x4(a), f64x2_promote_low_f32x4(b));
    f64x2_add(product, f64x2_promote_low_f32x4(c))
}

/// Where a sum is half-way between two normal numbers of f32, or below them.
#[inline(always)]
fn may_be_wrong(sum: v128) -> v128 {
    const LOST: i64 = (1 << 29) - 1;
    let half_way = i64x2_eq(v128_and(sum, i64x2_splat(LOST)), i64x2_splat(1 << 28));
    let size = f64x2_abs(sum);
    let below = f64x2_lt(size, f64x2_splat(f32::MIN_POSITIVE as f64));
    // No product is so small that a sum rounds to 0, which is then exact.
    v128_or(half_way, v128_and(below, f64x2_gt(size, f64x2_splat(0.0))))
}

/// [`fused`] where it is in doubt: the sum is rounded to odd in f64, and rounding that to f32 is as good as rounding the exact sum,
/// because f64 has more than two bits to spare (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE
/// Transactions on Computers 57, 2008).
#[cold]
#[inline(never)]
fn to_odd(a: &[v128; 4], b: &[v128; 4], c: &[v128; 4]) -> [v128; 4] {
    let mut out = [f32x4_splat(0.0); 4];
    for i in 0..4 {
        let high = half(upper(a[i]), upper(b[i]), upper(c[i]));
        out[i] = i64x2_shuffle::<0, 2>(half(a[i], b[i], c[i]), high);
    }
    out
}

/// [`fused`] in sixteen lanes.
#[inline(always)]
pub(crate) fn fused_lanes(a: &[f32; 16], b: &[f32; 16], c: &[f32; 16]) -> [f32; 16] {
    // SAFETY: four lanes from each fourth on.
    let load = |lanes: &[f32; 16]| [0, 4, 8, 12].map(|i| unsafe { v128_load(lanes.as_ptr().add(i).cast()) });
    let mut out = [0.0_f32; 16];
    for (four, lanes) in fused(load(a), load(b), load(c)).into_iter().zip(out.as_chunks_mut::<4>().0) {
        // SAFETY: there are four.
        unsafe { v128_store(lanes.as_mut_ptr().cast(), four) }
    }
    out
}

/// [`to_odd`] of the two low lanes.
#[inline(always)]
fn half(a: v128, b: v128, c: v128) -> v128 {
    let product = f64x2_mul(f64x2_promote_low_f32x4(a), f64x2_promote_low_f32x4(b));
    let c = f64x2_promote_low_f32x4(c);
    let sum = f64x2_add(product, c);
    // What rounding took from the sum, exactly (Knuth's two-sum).
    let back = f64x2_sub(sum, product);
    let error = f64x2_add(f64x2_sub(product, f64x2_sub(sum, back)), f64x2_sub(c, back));
    // Ordered comparisons: nothing is done to a sum that is no number.
    let zero = f64x2_splat(0.0);
    let inexact = v128_or(f64x2_lt(error, zero), f64x2_gt(error, zero));
    let one = i64x2_splat(1);
    let even = i64x2_eq(v128_and(sum, one), i64x2_splat(0));
    // An even sum goes one step towards the exact one: away from zero if both have one sign. The step is 1 or -1.
    // There is no instruction that shifts the sign over 64 bits on x86.
    let opposite = i32x4_shr(v128_xor(sum, error), 31);
    let step = v128_or(i32x4_shuffle::<1, 1, 3, 3>(opposite, opposite), one);
    let step = v128_and(step, v128_and(even, inexact));
    f32x4_demote_f64x2_zero(i64x2_add(sum, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulated_fused_operation_rounds_once() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Exponents near one another, so that sums cancel and ties come up; few bits, so that both are frequent.
            let bits = (state >> 32) as u32;
            f32::from_bits(
                (bits & 0x8000_0000) | (120 + (bits >> 8) % 16) << 23 | (bits & 0xFF) << (bits % 16),
            )
        };
        let special =
            [0.0, -0.0, 1.0, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), f32::INFINITY, f32::NAN];
        let check = |a: f32, b: f32, c: f32| {
            let found = fused_lanes(&[a; 16], &[b; 16], &std::array::from_fn(|i| [c, -c, 0.0, c][i / 4]));
            let found = [found[0], found[5], found[10], found[15]];
            for (found, c) in found.into_iter().zip([c, -c, 0.0, c]) {
                let expected = a.mul_add(b, c);
                assert!(
                    found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                    "{a:e} * {b:e} + {c:e} = {found:e}, not {expected:e}"
                );
            }
        };
        for _ in 0..200_000 {
            check(random(), random(), random());
            // Results below the normal numbers.
            check(random() * f32::MIN_POSITIVE, random() * 1e-3, random() * f32::MIN_POSITIVE * 1e-3);
        }
        for a in special {
            for b in special {
                for c in special {
                    check(a, b, c);
                }
            }
        }
    }
}
