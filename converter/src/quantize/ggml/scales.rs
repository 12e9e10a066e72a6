//! The two binary16 numbers of 256 columns that the whole numbers of their groups are multiplied with.

use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::Vector;

use super::super::half_scale::round_to_f16;
use super::super::levels::Levels;
use super::super::vectors::{ZEROS, magnitude};
use super::search::{Grid, Group, NONE, Pair};
use super::shape::{SUPER, ScaleForm, Shape};

/// Parts of the unit with which the largest scale is the largest whole number: few whole numbers want a finer unit than that.
const PARTS: [f32; 6] = [1.0, 0.97, 0.94, 0.9, 0.85, 1.04];

/// Groups of 256 columns at most.
const GROUPS: usize = SUPER / 16;

/// The same where all groups have the scale of the block: theirs are spread around it.
const COMMON_PARTS: [f32; 12] = [1.0, 0.95, 0.9, 0.86, 0.82, 0.78, 0.74, 0.7, 0.66, 0.62, 0.56, 0.5];

/// Units of 256 columns in every row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    pub unit: Lanes,
    pub min_unit: Lanes,
}

impl Units {
    /// No scales over scales.
    pub const NONE: Units = Units { unit: ZEROS, min_unit: ZEROS };

    /// Whether all are numbers that binary16 has.
    pub fn are_finite(&self) -> bool {
        self.unit.iter().chain(&self.min_unit).all(|v| v.is_finite())
    }
}

/// The units of 256 columns (or fewer, at the end of none) with which their groups lose least.
#[inline(always)]
pub(super) fn choose_units<V: Vector>(
    shape: &Shape,
    levels: &impl Levels,
    targets: &[Lanes],
    weights: &[f32],
) -> Units {
    let ScaleForm::Integer { low, high, offset } = shape.scales else { return Units::NONE };
    let count = targets.len() / shape.group;
    let mut wanted = [Pair::<V>::zero(); GROUPS];
    let (mut scale, mut min) = (V::splat(0.0), V::splat(0.0));
    for (i, wanted) in wanted[..count].iter_mut().enumerate() {
        *wanted = group(shape, levels, targets, weights, i).search(&Grid::Free).pairs[0];
        scale = scale.or_larger(magnitude(wanted.step));
        min = min.or_larger(wanted.offset);
    }
    let whole = scale.mul(V::splat(1.0 / high));
    let whole_min = min.mul(V::splat(if offset > 0.0 { 1.0 / offset } else { 0.0 }));
    let mut best = (V::splat(NONE), rounded(whole), rounded(whole_min));
    let parts: &[f32] = if low == high { &COMMON_PARTS } else { &PARTS };
    let trials = if shape.offset { 2 * parts.len() } else { parts.len() };
    for i in 0..trials {
        // First the unit of scales, then that of offsets.
        let part = V::splat(parts[i % parts.len()]);
        let (unit, min_unit) = match i < parts.len() {
            true => (rounded(whole.mul(part)), best.2),
            false => (best.1, rounded(whole_min.mul(part))),
        };
        let grid = Grid::Multiples { unit, min_unit };
        let mut sum = V::splat(0.0);
        for (i, wanted) in wanted[..count].iter().enumerate() {
            let pair = grid.nearest(shape, wanted.step, wanted.offset);
            sum = sum.add(group(shape, levels, targets, weights, i).error(&pair));
        }
        let better = best.0.larger(sum);
        best = (
            V::choose(better, sum, best.0),
            V::choose(better, unit, best.1),
            V::choose(better, min_unit, best.2),
        );
    }
    Units { unit: best.1.to_lanes(), min_unit: best.2.to_lanes() }
}

/// Group `i` of some columns.
#[inline(always)]
fn group<'a, L: Levels>(
    shape: &'a Shape,
    levels: &'a L,
    targets: &'a [Lanes],
    weights: &'a [f32],
    i: usize,
) -> Group<'a, L> {
    let columns = i * shape.group..(i + 1) * shape.group;
    Group { shape, levels, targets: &targets[columns.clone()], weights: &weights[columns] }
}

#[inline(always)]
fn rounded<V: Vector>(v: V) -> V {
    let mut lanes = v.to_lanes();
    for lane in &mut lanes {
        *lane = round_to_f16(*lane);
    }
    V::from_lanes(&lanes)
}
