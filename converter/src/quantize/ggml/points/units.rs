//! The binary16 number of 256 columns that the scales of their groups are multiplied with.

use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::Vector;

use super::super::super::half_scale::round_to_f16;
use super::super::super::vectors::{inverse, largest};
use super::signed::Points;

/// Unit of 256 columns, what `2 * code + 1` is multiplied with: as small as the group with the largest scale permits. That
/// scale need not be known well, since the code of each group is searched.
#[inline(always)]
pub(super) fn choose_unit<V: Vector>(points: Points<'_>, targets: &[Lanes], weights: &[f32]) -> Lanes {
    let shape = &points.shape;
    let mut step = V::splat(0.0);
    for (targets, weights) in targets.chunks(shape.group).zip(weights.chunks(shape.group)) {
        let (mut squares, mut sum) = (V::splat(0.0), V::splat(0.0));
        for (target, weight) in targets.iter().zip(weights) {
            let (target, weight) = (V::from_lanes(target), V::splat(*weight));
            squares = squares.fma(target.mul(weight), target);
            sum = sum.add(weight);
        }
        let mut typical = squares.mul(inverse(sum)).to_lanes();
        for square in &mut typical {
            *square = square.sqrt() * shape.typical;
        }
        let least = largest::<V>(targets).mul(V::splat(shape.parts.0 / points.book.largest()));
        step = step.or_larger(V::from_lanes(&typical)).or_larger(least);
    }
    stored_unit(shape.unit, &step.mul(V::splat(1.0 / (2.0 * shape.top + 1.0))).to_lanes())
}

/// The nearest units that can be stored, of which a file has `1 / scale` times as much in binary16.
#[inline(always)]
pub(super) fn stored_unit(scale: f32, wanted: &Lanes) -> Lanes {
    let mut units = *wanted;
    for unit in &mut units {
        *unit = round_to_f16(*unit / scale) * scale;
    }
    units
}
