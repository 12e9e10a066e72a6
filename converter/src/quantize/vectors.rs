//! Small functions of 16 lanes that the quantizers share.

use qsf_runtime::cpu::lanes::{LANES, Lanes};
use qsf_runtime::cpu::vector::Vector;

/// 1.5 * 2^23: from here to 2^24 neighbouring `f32` are 1 apart.
const ROUNDING: f32 = 12_582_912.0;

/// Sixteen zeros.
pub(super) const ZEROS: Lanes = [0.0; LANES];

/// Rounded to the nearest integer, ties to even; magnitudes below 2^22.
#[inline(always)]
pub(super) fn round<V: Vector>(v: V) -> V {
    v.add(V::splat(ROUNDING)).sub(V::splat(ROUNDING))
}

/// Limited to `low..=high`.
#[inline(always)]
pub(super) fn clamp<V: Vector>(v: V, low: f32, high: f32) -> V {
    let v = V::splat(low).or_larger(v);
    V::choose(V::splat(high).larger(v), v, V::splat(high))
}

/// 1 / v, and 0 for 0.
#[inline(always)]
pub(super) fn inverse<V: Vector>(v: V) -> V {
    V::choose(magnitude(v).larger(V::splat(0.0)), V::splat(1.0).div(v), V::splat(0.0))
}

/// |v|.
#[inline(always)]
pub(super) fn magnitude<V: Vector>(v: V) -> V {
    V::splat(0.0).sub(v).or_larger(v)
}

/// Largest magnitude in every lane.
#[inline(always)]
pub(super) fn largest<V: Vector>(values: &[Lanes]) -> V {
    let mut largest = V::splat(0.0);
    for value in values {
        largest = largest.or_larger(magnitude(V::from_lanes(value)));
    }
    largest
}
