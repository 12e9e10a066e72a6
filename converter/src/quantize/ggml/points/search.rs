//! The scale of one group of columns in 16 rows.

use qsf_runtime::cpu::lanes::Lanes;
use qsf_runtime::cpu::vector::Vector;

use super::super::super::vectors::{clamp, inverse, largest, round};
use super::super::search::{Best, Pair};
use super::shape::{PointShape, SHIFT, Shift, WIDTH};
use super::signed::Points;

/// Starting points.
const TRIALS: usize = 3;
/// Codes of scales beside the best one.
const NEIGHBOURS: [f32; 4] = [-1.0, 1.0, -2.0, 2.0];

/// The scales of a block: `2 * code + 1` times this.
#[derive(Clone, Copy)]
pub(super) struct Steps<V>(pub V);

/// A group of columns that wants a scale.
#[derive(Clone, Copy)]
pub(super) struct Group<'a> {
    pub points: Points<'a>,
    pub targets: &'a [Lanes],
    pub weights: &'a [f32],
}

impl<V: Vector> Steps<V> {
    /// The nearest scale, with a shift.
    #[inline(always)]
    pub fn nearest(&self, shape: &PointShape, step: V, shift: V) -> Pair<V> {
        let code = round(step.mul(inverse(self.0)).sub(V::splat(1.0)).mul(V::splat(0.5)));
        self.of_code(shape, code, shift)
    }

    /// The scale of a code, within its range.
    #[inline(always)]
    fn of_code(&self, shape: &PointShape, code: V, shift: V) -> Pair<V> {
        let code = clamp(code, 0.0, shape.top);
        let step = self.0.mul(V::splat(1.0).fma(code, V::splat(2.0)));
        Pair { scale: code, min: V::splat(0.0), step, offset: shift }
    }
}

impl Group<'_> {
    /// The best scales and shifts that the search finds. One loop for all that is tried: whatever is in it is compiled
    /// once.
    #[inline(always)]
    pub fn search<V: Vector>(&self, steps: &Steps<V>) -> Best<V> {
        let mut best: Best<V> = Best::new();
        let shape = &self.points.shape;
        let whole = largest::<V>(self.targets).mul(V::splat(1.0 / self.points.book.largest()));
        let shifts = if shape.shift == Shift::Group { 2 } else { 1 };
        let starts = 2 * TRIALS * shifts;
        let mut better = V::splat(0.0);
        let mut middle = Pair::zero();
        for i in 0..starts + NEIGHBOURS.len() {
            let pair = if i >= starts {
                if i == starts {
                    middle = best.pairs[0];
                }
                let code = middle.scale.add(V::splat(NEIGHBOURS[i - starts]));
                steps.of_code(shape, code, middle.offset)
            } else {
                let shift = match shape.shift {
                    Shift::Group => V::splat(if i < 2 * TRIALS { SHIFT } else { -SHIFT }),
                    _ => V::splat(0.0),
                };
                let part = (i / 2 % TRIALS) as f32 / (TRIALS - 1) as f32;
                let part = shape.parts.0 + (shape.parts.1 - shape.parts.0) * part;
                let step = if i % 2 == 0 { whole.mul(V::splat(part)) } else { better };
                steps.nearest(shape, step, shift)
            };
            let error;
            (error, better) = self.evaluate(&pair);
            best.insert(error, pair);
        }
        best
    }

    /// Weighted squares of the distances to the nearest values, and the scale that is best for their codes.
    #[inline(always)]
    fn evaluate<V: Vector>(&self, pair: &Pair<V>) -> (V, V) {
        let inverted = inverse(pair.step);
        let zero = V::splat(0.0);
        let (mut error, mut xl, mut ll) = (zero, zero, zero);
        let columns = self.targets.as_chunks::<WIDTH>().0.iter().zip(self.weights.as_chunks::<WIDTH>().0);
        for (targets, weights) in columns {
            let levels = self.points.nearest(inverted, pair.offset, targets, weights);
            for ((target, level), weight) in targets.iter().zip(&levels).zip(weights) {
                let (target, level, weight) =
                    (V::from_lanes(target), V::from_lanes(level), V::splat(*weight));
                let distance = target.sub(pair.step.mul(level));
                error = error.fma(distance.mul(weight), distance);
                let weighted = level.mul(weight);
                xl = xl.fma(target, weighted);
                ll = ll.fma(level, weighted);
            }
        }
        (error, xl.or_larger(zero).mul(inverse(ll)))
    }
}
